#include "plugin.h"

void pluginGet(struct copy *copy);
void pluginGet(struct copy *copy) {
    copy->create = attentionCreate;
    copy->record = attentionRecord;
    copy->check = attentionCheck;
    copy->destroy = attentionDestroy;
    copy->library = vkattnRecord;
}
