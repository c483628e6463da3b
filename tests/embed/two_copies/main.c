/* Three copies of vkattn in one process, on devices of their own, with lives that overlap. The
 * plugins are loaded RTLD_GLOBAL, where exported names would be shared. */
#include "plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { COPIES = 3 };

static void *load(const char *path, struct copy *copy) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *symbol = plugin ? dlsym(plugin, "pluginGet") : NULL;
    void (*get)(struct copy *) = NULL;
    if (!symbol) return printf("%s\n", dlerror()), NULL;
    if (dlsym(plugin, "vkattnRecord")) return printf("%s exports vkattn's functions\n", path), NULL;
    memcpy(&get, &symbol, sizeof get); /* C99 has no cast from data to functions */
    get(copy);
    return plugin;
}

int main(void) {
    struct copy copies[COPIES] = {{attentionCreate, attentionRecord, attentionCheck, attentionDestroy, vkattnRecord}};
    struct gpu_instance instance;
    struct gpu gpu[COPIES];
    struct attention attention[COPIES];
    void *plugins[COPIES] = {NULL, load(PLUGIN_A, &copies[1]), load(PLUGIN_B, &copies[2])};
    int result, n;
    if (!plugins[1] || !plugins[2]) return GPU_FAILED;
    if (copies[0].library == copies[1].library || copies[1].library == copies[2].library || copies[0].library == copies[2].library)
        return printf("two of the three copies are one\n"), GPU_FAILED;
    if ((result = gpuOpenInstance(&instance, gpuFindLoader()))) return result;
    for (n = 0; n < COPIES && !result; ++n) result = openHelpfully(&gpu[n], &instance, 0);
    for (n = 0; n < COPIES && !result; ++n) result = copies[n].create(&attention[n], &gpu[n], 20 + (unsigned)n);
    for (n = 0; n < COPIES && !result; ++n) result = copies[n].record(&attention[n]);
    for (n = 0; n < COPIES && !result; ++n) result = gpuSubmitAndWait(&gpu[n]);
    for (n = 0; n < COPIES && !result; ++n) result = copies[n].check(&attention[n]);
    if (result) return result;
    copies[1].destroy(&attention[1]);
    /* unloaded; the others go on */
    if (dlclose(plugins[1])) return printf("%s\n", dlerror()), GPU_FAILED;
    if (!(result = copies[2].record(&attention[2])) && !(result = gpuSubmitAndWait(&gpu[2]))) result = copies[2].check(&attention[2]);
    copies[2].destroy(&attention[2]);
    copies[0].destroy(&attention[0]);
    for (n = 0; n < COPIES; ++n) gpuClose(&gpu[n]);
    return gpuCloseInstance(&instance) ? GPU_FAILED : result;
}
