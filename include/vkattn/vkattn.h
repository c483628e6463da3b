/* vkattn/vkattn.h: attention on your Vulkan device, recorded into your command buffer. C99 and C++.
 * Target vkattn::core. This header is the manual. It includes only vulkan_core.h, and works with
 * VK_NO_PROTOTYPES.
 *
 * The library finds Vulkan only through the vkGetInstanceProcAddr that you pass. It creates no
 * instance, device, queue or memory. It never submits, waits or sees a queue. It has no globals,
 * threads, files, environment variables or output.
 *
 *   vkattnDeviceExtensions      before vkCreateDevice: the extensions to enable
 *   vkattnPatchDeviceFeatures   before vkCreateDevice: the features to enable
 *   vkattnCreateContext         once per device, from your handles
 *   vkattnImportCache           takes the pipelines of an earlier run (vkattnExportCache)
 *   vkattnQuery                 the workspace and the kernel of a problem, or why it is unsupported
 *   vkattnExplain               what the planner chooses and why, from caps alone
 *   vkattnExplainKernel         why the planner does not choose another kernel
 *   vkattnPrewarm               compiles the pipelines that a problem needs, on any thread
 *   vkattnRecord                appends the dispatches, or one slice of them, to a command buffer
 *   vkattnListDispatches        the same dispatches as plain data, for engines that issue commands
 *                               through a layer of their own
 *   vkattnRecordOperation ...   the same life for what surrounds attention in a layer:
 *                               projections, norms, rotary embedding, appending to a cache,
 *                               counters that move on (vkattn/operations.h)
 *
 * Barriers. Before the dispatches, inputs must be visible to VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT /
 * VK_ACCESS_SHADER_READ_BIT. Outputs and workspace must be free to be written by the same stage,
 * and outputs of dtype f16 or bf16 also to be read (VK_ACCESS_SHADER_READ_BIT |
 * VK_ACCESS_SHADER_WRITE_BIT). Between its own dispatches vkattnRecord places compute-to-compute
 * memory barriers where they depend on each other. After the dispatches, outputs were written by
 * VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT / VK_ACCESS_SHADER_WRITE_BIT. You make the outputs visible,
 * and you protect the workspace before it is used again. The library touches no image and transfers
 * no ownership: where Q, K, V or outputs come from or go to another queue family, you record the
 * release and the acquire.
 *
 * Slices. A problem with sliceCount n > 1 is recorded in n calls, with sliceIndex 0 to n - 1, and so
 * is its backward pass. Each slice is recorded once, and the slices execute in this order, in one
 * command buffer or in many, in one frame or in many. On one queue nothing is needed between them. On
 * several queues a semaphore (timeline or binary) makes slice i + 1 wait for slice i at
 * VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT. Between the first and the last slice the inputs must not
 * change, the outputs hold what is finished so far, and the first persistentWorkspaceBytes of the
 * workspace must keep their contents. The rest of the workspace may be used for other things
 * between two slices, under the same barriers as between two problems.
 *
 * Clobbers. Recording changes, in the command buffer, the compute pipeline, push constants
 * [0, 128) and compute descriptor set 0. By Vulkan's rules of pipeline layout compatibility, the
 * compute sets that you had bound above set 0 are disturbed too. Nothing else changes.
 *
 * Threads. Every call on one context may run at the same time on any thread, except
 * vkattnDestroyContext. Command buffers and descriptor pools are externally synchronised, as in
 * Vulkan.
 *
 * Structs. structSize is the sizeof of the struct in the headers that the caller was compiled with.
 * Set structSize in every struct that has the field, also in structs that a call fills in. A
 * shorter struct comes from an earlier version: the fields that the struct lacks count as zero, the
 * default of every field, and are not written. A longer struct is refused: the library is older
 * than the headers.
 *
 * Lifetime. The library keeps no pointer after a call, except the callbacks with their user data
 * (until the context is destroyed) and your pipeline cache handle.
 *
 * Errors. A comment lists the errors of its call without the prefix VKATTN_ERROR_.
 */
#ifndef VKATTN_VKATTN_H_
#define VKATTN_VKATTN_H_

#include "vkattn/latent_layer.h"
#include "vkattn/layer.h"
#include "vkattn/layer_gradient.h"

#include <stddef.h>
#ifndef VULKAN_CORE_H_
#include <vulkan/vulkan_core.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define VKATTN_VERSION_MAJOR 0
#define VKATTN_VERSION_MINOR 1
#define VKATTN_VERSION_PATCH 0
#define VKATTN_DEFAULT_MAX_WORKSPACE_BYTES (64ull << 20)

/* Returns the version of the linked library as (major << 22) | (minor << 12) | patch, the format of
 * VK_MAKE_VERSION. */
VKATTN_API uint32_t vkattnVersion(void);
/* Returns a hash of all shaders of the library. What was found with one hash (verdicts,
 * measurements) says nothing about a library with another. Pure; any thread. */
VKATTN_API uint64_t vkattnShaderHash(void);

/* A shape that the matrix units of a device multiply in one subgroup:
 * C (m x n, f32) += A (m x k) B (k x n). */
typedef struct vkattn_matrix_shape {
    uint32_t m, n, k;
    vkattn_dtype inputs; /* of A and B: VKATTN_F16 or VKATTN_BF16 */
} vkattn_matrix_shape;

#define VKATTN_MAX_MATRIX_SHAPES 12

/* Features of VK_NV_cooperative_matrix2 that kernels use. */
typedef enum vkattn_matrix2_bits {
    VKATTN_MATRIX2_FLEXIBLE = 1,         /* cooperativeMatrixFlexibleDimensions */
    VKATTN_MATRIX2_REDUCTIONS = 2,       /* cooperativeMatrixReductions */
    VKATTN_MATRIX2_CONVERSIONS = 4,      /* cooperativeMatrixConversions */
    VKATTN_MATRIX2_PER_ELEMENT = 8,      /* cooperativeMatrixPerElementOperations */
    VKATTN_MATRIX2_TENSOR_LOADS = 16,    /* cooperativeMatrixTensorAddressing */
    VKATTN_MATRIX2_WORKGROUP_SCOPE = 32, /* cooperativeMatrixWorkgroupScope */
    VKATTN_MATRIX2_MAX = 0x7fffffff
} vkattn_matrix2_bits;

/* The facts about a device that planning needs. Caps are plain data, so that plans can be made
 * without a device. */
typedef struct vkattn_caps {
    uint32_t structSize;
    /* VkPhysicalDeviceType: CPUs and GPUs get other tiles. */
    uint32_t deviceType;
    uint32_t maxStorageBufferRange;           /* bytes */
    uint32_t minStorageBufferOffsetAlignment; /* bytes */
    uint32_t maxStorageBuffersPerStage;
    uint32_t maxPushConstantsBytes;
    uint32_t maxWorkgroupInvocations;
    uint32_t maxWorkgroupSize[3];
    uint32_t maxWorkgroupCount[3];
    uint32_t maxSharedMemoryBytes;
    uint32_t pushDescriptors;   /* 1: VK_KHR_push_descriptor is enabled */
    uint32_t subgroupSize;      /* lanes; 0: unknown (Vulkan 1.0) */
    uint32_t subgroupShuffle;   /* 1: compute shaders have shuffles, votes and SPIR-V 1.3 */
    uint32_t subgroupClustered; /* 1: compute shaders have clustered operations too */
    /* 1: computeFullSubgroups is enabled: pipelines with subgroup operations require whole
     * subgroups. */
    uint32_t fullSubgroups;
    /* 1: shaderSignedZeroInfNanPreserveFloat32: the rules for NaN are guaranteed (docs/numerics.md
     * 4). */
    uint32_t floatControlsNan;
    /* Subgroup sizes that a compute pipeline may require: lanes, powers of two. 0: none
     * (subgroupSizeControl is not enabled). */
    uint32_t minSubgroupSize;
    uint32_t maxSubgroupSize;
    uint32_t maxWorkgroupSubgroups; /* in a workgroup with a required size; 0: no required sizes */
    /* Matrix units: shapes of subgroup scope with f16 or bf16 inputs and f32 sums, in the device's
     * order. 0: none, or one of cooperativeMatrix, shaderFloat16, vulkanMemoryModel and
     * computeFullSubgroups is not enabled. Shapes with bf16 inputs also need
     * shaderBFloat16CooperativeMatrix. */
    uint32_t matrixShapeCount;
    vkattn_matrix_shape matrixShapes[VKATTN_MAX_MATRIX_SHAPES];
    uint32_t matrix2 VKATTN_EXPERIMENTAL; /* vkattn_matrix2_bits that are enabled */
    /* With VKATTN_MATRIX2_FLEXIBLE, for f16 inputs and f32 sums at subgroup scope: m, n and k
     * may be any multiples of these up to matrix2MaxDimension. 0: none. */
    uint32_t matrix2Granularity[3] VKATTN_EXPERIMENTAL;
    uint32_t matrix2MaxDimension VKATTN_EXPERIMENTAL;
    /* Bits 1 << vkattn_kernel (vkattnSetVerdict). Wrong kernels are refused, because they failed
     * their self-test on this device and driver. AUTO never chooses slow kernels, because other
     * kernels were measured to be faster. */
    uint32_t wrongKernels;
    uint32_t slowKernels;
    /* 1: unpackHalf2x16 gives each binary16 its value, denormals included (vkattnSetExactHalves). 0:
     * nobody has said so; a device's own caps begin with that. */
    uint32_t exactHalves;
} vkattn_caps;

typedef enum vkattn_log_level {
    /* A call did something that took long: compiled pipelines, imported a cache. */
    VKATTN_LOG_INFO = 0,
    /* The call works, but not as well as it could: a cache was rejected, a declared extension lacks
     * its functions, or the device could do more than vkattn_host declares. */
    VKATTN_LOG_WARNING = 1,
    VKATTN_LOG_ERROR = 2, /* the message of a call that failed, even without a diagnostic */
    VKATTN_LOG_MAX = 0x7fffffff
} vkattn_log_level;

/* Your device, and how it was created. */
typedef struct vkattn_host {
    uint32_t structSize;
    /* The VkApplicationInfo::apiVersion that the instance was created with. 0: 1.0, without
     * subgroup operations. */
    uint32_t apiVersion;
    VkInstance instance;
    VkPhysicalDevice physicalDevice;
    VkDevice device;
    PFN_vkGetInstanceProcAddr getInstanceProcAddr;
    /* The extensions that the device was created with. Vulkan cannot be asked for them later. */
    const char *const *enabledExtensions;
    uint32_t enabledExtensionCount;
    /* Optional. The pipeline cache stays yours and must outlive the context. Prewarming threads
     * share the cache: VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT must not be set. */
    VkPipelineCache pipelineCache;
    const VkAllocationCallbacks *allocator; /* optional; the callbacks must outlive the context */
    /* Problems are cut into chunks to stay below this size. 0: 64 MiB. A plan that exceeds the
     * limit even with one query row at a time asks for the bytes that one row needs. */
    uint64_t maxWorkspaceBytes;
    const void *tuning; /* optional: the bytes of a file by `vkattn tune` (docs/tuning.md) */
    size_t tuningBytes;
    /* Optional: plans are made as if the device had at most these caps, to test weak devices on
     * strong ones. */
    const vkattn_caps *capsLimit;
    /* Optional: the feature chain that the device was created with. A feature that is not in the
     * chain is not used. The chain is read during the call and not kept. */
    const VkPhysicalDeviceFeatures2 *enabledFeatures;
    /* 1: the instance enabled VK_EXT_debug_utils: dispatches get labels, and pipelines names. */
    uint32_t debugLabels;
    void *userData; /* passed to the callbacks */
    /* Optional; without it the library is silent. Called during a call on the context, on its
     * thread. */
    void (*log)(void *userData, vkattn_log_level level, const char *message);
    /* Optional: brackets what vkattnRecord records, for Tracy or your own timestamps. `name` is
     * static storage at the begin of a zone, and NULL at its end. Zones are properly nested: one
     * zone for the call, and in it one for each dispatch with the barrier before it. */
    void (*zone)(void *userData, VkCommandBuffer commandBuffer, const char *name);
} vkattn_host;

/* What a problem needs on a context (vkattnQuery). */
typedef struct vkattn_requirements {
    uint32_t structSize;
    uint32_t dispatchCount; /* dispatches that vkattnRecord will record */
    uint32_t pipelineCount; /* distinct pipelines that the dispatches use */
    /* Descriptor sets, and VK_DESCRIPTOR_TYPE_STORAGE_BUFFER descriptors in them, that are taken
     * from your pool. 0 where the device has push descriptors. */
    uint32_t descriptorSetCount;
    uint32_t storageDescriptorCount;
    /* Chunks that the problem was cut into to meet limits. 1: whole; 0: nothing to compute. */
    uint32_t chunkCount;
    uint64_t workspaceBytes;     /* 0: no workspace */
    uint64_t workspaceAlignment; /* of the binding's offset, bytes */
    const char *kernelName;      /* as vkattnKernelName says */
    /* Bytes at the workspace's start that must be kept from the first slice to the last. 0:
       none. */
    uint64_t persistentWorkspaceBytes;
    /* The most slices that have work. Slices of a larger sliceCount that have none record
       nothing. */
    uint32_t maxSlices;
    /* How far the kernel rounds the weights that it multiplies values with, for vkattnCpuVerify
     * (docs/numerics.md, u_P): relative, and absolute for tiny weights. 0: not beyond f32. */
    float probabilityUnit, probabilityFloor;
    vkattn_kernel kernel; /* the kernel that computes; never AUTO */
} vkattn_requirements;

/* The memory of a role. */
typedef struct vkattn_binding {
    vkattn_role role;
    VkBuffer buffer;     /* VK_BUFFER_USAGE_STORAGE_BUFFER_BIT */
    VkDeviceSize offset; /* bytes; a multiple of the dtype's size (workspace: workspaceAlignment) */
    /* Bytes that may be touched from offset. Shaders read storage in 32-bit words: the bytes up
     * to the next multiple of 4 in the buffer are touched too and must exist. Make buffers a
     * multiple of 4 bytes long. */
    VkDeviceSize size;
} vkattn_binding;

/* Where and how a problem is recorded. */
typedef struct vkattn_record {
    uint32_t structSize;
    uint32_t allowCompile;         /* 0: never compile here; return VKATTN_NOT_READY instead */
    VkCommandBuffer commandBuffer; /* compute-capable family, recording, outside a render pass */
    const vkattn_binding *bindings;
    uint32_t bindingCount;
    /* Needed only where requirements.descriptorSetCount > 0. The sets die with the pool. */
    VkDescriptorPool descriptorPool;
    uint32_t sliceIndex; /* below the problem's sliceCount; 0 where sliceCount is 0 or 1 */
} vkattn_record;

typedef struct vkattn_context_t *vkattn_context;

typedef enum vkattn_need {
    VKATTN_REQUIRED = 0, /* vkattnCreateContext fails without these. Today: none */
    VKATTN_HELPFUL = 1,  /* something is faster or guaranteed with these; all works without */
    VKATTN_NEED_MAX = 0x7fffffff
} vkattn_need;

/* A device before there is a VkDevice. */
typedef struct vkattn_physical_device {
    uint32_t structSize;
    /* The VkApplicationInfo::apiVersion that the instance was created with. 0: 1.0, without
     * subgroup operations. */
    uint32_t apiVersion;
    VkInstance instance;
    VkPhysicalDevice physicalDevice;
    PFN_vkGetInstanceProcAddr getInstanceProcAddr;
} vkattn_physical_device;

/* Lists the device extensions to enable, before vkCreateDevice. Required extensions are listed
 * whether or not the device has them; helpful ones where the device has them and the instance
 * (apiVersion) allows their use. Extensions that are part of the usable core version are not
 * listed. *count is the room in `names`, and then the number of extensions; `names` NULL asks
 * for the number. The names are static storage.
 * Errors: INVALID_ARGUMENT (also where `names` has too little room: *count is then the room that
 * is needed), OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, VULKAN. */
VKATTN_API vkattn_result vkattnDeviceExtensions(const vkattn_physical_device *device, vkattn_need need, uint32_t *count, const char **names,
                                                vkattn_diagnostic *why);

/* Caller-owned room for the structs that vkattnPatchDeviceFeatures links in. */
typedef struct vkattn_feature_storage {
    uint64_t bytes[64];
} vkattn_feature_storage;

/* Sets the features that help and that the device has, before vkCreateDevice, in the chain that you
 * will pass as VkDeviceCreateInfo::pNext. `extensions` are those that the device will be created
 * with. Bits are set and never cleared. A struct that is in the chain already is used, an aggregate
 * (VkPhysicalDeviceVulkan11/12/13Features) in place of its parts. A struct that is missing is taken
 * from *room and linked at the end of the chain: *room must live as long as the chain is used. Pass
 * the same chain as vkattn_host::enabledFeatures.
 * Errors: INVALID_ARGUMENT. */
VKATTN_API vkattn_result vkattnPatchDeviceFeatures(const vkattn_physical_device *device, const char *const *extensions,
                                                   uint32_t extensionCount, VkPhysicalDeviceFeatures2 *chain, vkattn_feature_storage *room,
                                                   vkattn_diagnostic *why);

/* Returns the caps that a context on such a device would plan with, before any VkDevice exists.
 * `extensions` and `features` (optional) are those that the device would be created with. Set
 * out->structSize first. */
VKATTN_API vkattn_result vkattnPhysicalDeviceCaps(const vkattn_physical_device *device, const char *const *extensions,
                                                  uint32_t extensionCount, const VkPhysicalDeviceFeatures2 *features, vkattn_caps *out,
                                                  vkattn_diagnostic *why);

/* Returns the least that a Vulkan 1.0 device may have (the specification's table "Required
 * Limits"), without any extension or feature. As vkattn_host::capsLimit, these caps make any
 * device the weakest. Set out->structSize first. Pure; any thread.
 * Errors: INVALID_ARGUMENT. */
VKATTN_API vkattn_result vkattnMinimumCaps(vkattn_caps *out, vkattn_diagnostic *why);

/* Writes the kernels of this library to `out`, VKATTN_KERNEL_STAGED first and at most `capacity` of
 * them, and returns their number. AUTO is not among them. Pure; any thread. */
VKATTN_API uint32_t vkattnKernels(vkattn_kernel *out, uint32_t capacity);
/* Returns "staged", "flash", ..., or "auto" for VKATTN_KERNEL_AUTO, in static storage. Returns NULL
 * for a value that is no kernel. */
VKATTN_API const char *vkattnKernelName(vkattn_kernel kernel);

typedef enum vkattn_kernel_trait_bits {
    VKATTN_KERNEL_TRAIT_WEIGHTS = 1, /* takes problems with VKATTN_WEIGHTS or VKATTN_SCORES */
    /* Runs on matrix units: q, k and v are all f16 or all bf16, or k and v are of an fp8 type. Run a
       self-test before first use. */
    VKATTN_KERNEL_TRAIT_MATRIX_UNITS = 2,
    VKATTN_KERNEL_TRAIT_MAX = 0x7fffffff
} vkattn_kernel_trait_bits;
/* Returns vkattn_kernel_trait_bits; 0 for AUTO and for a value that is no kernel. */
VKATTN_API uint32_t vkattnKernelTraits(vkattn_kernel kernel);

/* Says whether a device with these caps can run the kernel. Returns VKATTN_OK where the device
 * can. why->message is then empty where the kernel can compute all problems, and otherwise says
 * which.
 * Errors: UNSUPPORTED with the reason; INVALID_ARGUMENT for AUTO and for a value that is no
 * kernel. */
VKATTN_API vkattn_result vkattnKernelSupport(const vkattn_caps *caps, vkattn_kernel kernel, vkattn_diagnostic *why);

/* Creates a context on your device. *out is NULL on failure. Host memory comes from
 * host->allocator. The only Vulkan objects are descriptor set layouts, pipeline layouts and a
 * pipeline cache, and later pipelines, shader modules and imported caches.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED (the device is below the Vulkan 1.0 minimum limits),
 * OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, VULKAN. */
VKATTN_API vkattn_result vkattnCreateContext(const vkattn_host *host, vkattn_context *out, vkattn_diagnostic *why);

/* Destroys a context. No command buffer that was recorded with the context may still be pending:
 * the call does not wait. NULL is ignored. */
VKATTN_API void vkattnDestroyContext(vkattn_context context);

/* Returns the caps that plans are made from. Set out->structSize first. */
VKATTN_API vkattn_result vkattnContextCaps(vkattn_context context, vkattn_caps *out);

/* Plans the problem and returns what it needs, without touching Vulkan. Set out->structSize first.
 * Errors: INVALID_ARGUMENT; UNSUPPORTED with the reason: the CPU (vkattn/cpu.h) takes the same
 * problem. */
VKATTN_API vkattn_result vkattnQuery(vkattn_context context, const vkattn_problem *problem, vkattn_requirements *out,
                                     vkattn_diagnostic *why);

/* What the planner chooses on a device with given caps, why, and what the choice costs: for people,
 * logs and measurement. Recording needs none of these fields. Numbers that a kernel has no use for
 * are 0. */
typedef struct vkattn_explanation {
    uint32_t structSize;
    vkattn_kernel kernel;   /* never AUTO */
    const char *kernelName; /* as vkattnKernelName says */
    /* e.g. "rows in lanes", static storage; empty for kernels with one form */
    const char *form;
    /* Tiles of the main dispatches. */
    uint32_t rowsPerWorkgroup;
    uint32_t keysPerStep;
    uint32_t packedHeads; /* query heads of a group that share a tile as rows */
    uint32_t splits;      /* splits of the keys of a row, computed side by side */
    /* As in vkattn_requirements. */
    uint32_t dispatchCount;
    uint32_t pipelineCount;
    uint32_t chunkCount;
    uint32_t groups[3];            /* of the first main dispatch */
    uint32_t workgroupInvocations; /* of the first main dispatch */
    uint64_t workspaceBytes;
    /* Operations on the pairs that are visible by position: by causal, window, and lengths that are
     * known here. */
    double flops;
    double flopsFull; /* operations as if nothing were hidden */
    double bytesRead, bytesWritten;
    uint32_t sliceCount;               /* the problem's sliceCount, at least 1 */
    uint32_t maxSlices;                /* as in vkattn_requirements */
    uint64_t persistentWorkspaceBytes; /* as in vkattn_requirements */
    /* The largest slice's share of the work, by the planner's estimate: near 1 / sliceCount. */
    double largestSlice;
    float probabilityUnit;  /* as in vkattn_requirements */
    float probabilityFloor; /* as in vkattn_requirements */
    char choice[508];       /* UTF-8, zero-terminated: why this kernel */
    /* Cost of compiling the main pipeline: operations of a lane with its loops unrolled, for the
     * types and options that take most. 0 on matrix units, where there is no estimate. Software
     * drivers compile at the first dispatch, in about 1 s for every 1000 operations. */
    uint64_t compileOperations;
    /* The most operations that a built-in tile may have on such a device. Rows of a tuning file may
     * have more. */
    uint64_t compileLimit;
    /* Operations of the tile that comes first for these dims, where that tile is over the limit. 0:
     * the first tile is taken. */
    uint64_t passedOverOperations;
    /* The patch of a grid that the rows of a workgroup are (vkattn_grid). 0: they are neighbours in a
     * sequence. */
    uint32_t patchRows, patchColumns;
    /* 1: neighbouring workgroups have tiles from both ends of a sequence in turn, since each thread of a
     * CPU device computes neighbouring workgroups, and causal tiles differ. 0: tiles in order. */
    uint32_t tilesInTurn;
    /* 1: halves of K and V are unpacked by one instruction, as caps.exactHalves allows. 0: there are
     * none, or the kernel unpacks them in integer arithmetic. */
    uint32_t unpacksHalves;
} vkattn_explanation;

/* Options of plans that need no context. NULL or zero is the default. The bytes are read during the
 * call only. */
typedef struct vkattn_plan_options {
    uint32_t structSize;
    uint32_t reserved;          /* 0 */
    uint64_t maxWorkspaceBytes; /* 0: 64 MiB */
    /* The bytes of a file by `vkattn tune` (docs/tuning.md); NULL: none. */
    const void *tuning;
    size_t tuningBytes;
} vkattn_plan_options;

/* Plans `problem` as a context on a device with `caps` would, without any Vulkan object. Caps come
 * from vkattnContextCaps or vkattnPhysicalDeviceCaps, or are made up. `options` may be NULL. Set
 * out->structSize first; *out is written only on VKATTN_OK. Pure; any thread.
 * Errors: INVALID_ARGUMENT; UNSUPPORTED with the reason, where vkattnQuery returns it too. */
VKATTN_API vkattn_result vkattnExplain(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_problem *problem,
                                       vkattn_explanation *out, vkattn_diagnostic *why);

/* Says why the planner does not take `kernel` for the problem; vkattnExplain, with the same
 * arguments, says what the planner takes. Returns VKATTN_OK where the kernel can compute the
 * problem: *why then says what speaks against the kernel and what it would cost, and
 * why->message is empty where the planner takes this very kernel. Pure; any thread.
 * Errors: UNSUPPORTED with the reason where the kernel cannot compute the problem;
 * INVALID_ARGUMENT, also for AUTO and for a value that is no kernel. */
VKATTN_API vkattn_result vkattnExplainKernel(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_problem *problem,
                                             vkattn_kernel kernel, vkattn_diagnostic *why);

/* Compiles the pipelines that the problems need and that are not there yet. Slow; any thread. */
VKATTN_API vkattn_result vkattnPrewarm(vkattn_context context, const vkattn_problem *problems, uint32_t problemCount,
                                       vkattn_diagnostic *why);

/* Appends the problem's dispatches, and the barriers between them, to a command buffer.
 *
 * Bindings name every role that the problem uses, once each, and VKATTN_WORKSPACE where
 * workspaceBytes > 0. Input bindings may overlap each other: V may be a view into K. Outputs and
 * the workspace share no byte with anything else. The call checks this rule within each buffer,
 * by the bytes that the elements take, whatever the bindings' sizes: operands may take turns in
 * one tensor (heads or tokens of a fused Q, K, V and output) where a stride of one of the two
 * separates them. The check takes two VkBuffers in the same memory for different memory.
 *
 * Returns NOT_READY where a pipeline is missing and allowCompile is 0, with the pipeline's name
 * and what to do in *why: nothing was recorded.
 * Errors before anything is recorded: INVALID_ARGUMENT, UNSUPPORTED, and with allowCompile the
 * errors of compiling (OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, DEVICE_LOST, VULKAN). Errors
 * while recording, where the descriptor pool or its memory is exhausted: OUT_OF_DEVICE_MEMORY or
 * OUT_OF_HOST_MEMORY, or VULKAN where the driver says something else. The command buffer may
 * then hold part of the work: reset it. */
VKATTN_API vkattn_result vkattnRecord(vkattn_context context, const vkattn_problem *problem, const vkattn_record *record,
                                      vkattn_diagnostic *why);

/* Sets *sliceCount (at least 1) to the number of slices that keeps each slice below
 * `microseconds` of device time, by the device's rate in the tuning data of the context
 * (`vkattn tune`). The problem's own sliceCount is not looked at. The number is an estimate and
 * no promise: clocks change, and other work shares the device.
 * Errors: INVALID_ARGUMENT; UNSUPPORTED where the context has no tuning data with a rate for the
 * kernel and head dim that the problem takes, or where even maxSlices slices are too long. */
VKATTN_API vkattn_result vkattnSlicesForBudget(vkattn_context context, const vkattn_problem *problem, double microseconds,
                                               uint32_t *sliceCount, vkattn_diagnostic *why);

/* A range of a role's memory that a dispatch binds as a storage buffer. */
typedef struct vkattn_operand {
    vkattn_role role;
    uint32_t writes; /* 1: written, and for f16 and bf16 also read; 0: only read */
    /* From the start of the role's memory; a multiple of the caps' minStorageBufferOffsetAlignment
     * and of 4. */
    uint64_t offsetBytes;
    uint64_t sizeBytes; /* a multiple of 4: may end up to 3 bytes past the role's last element */
} vkattn_operand;

/* One dispatch of a plan, for engines that issue commands through a layer of their own. All
 * pointers lead into the scratch memory or to static storage. */
typedef struct vkattn_dispatch {
    const char *name; /* of the shader */
    /* Entry point "main". SPIR-V 1.0; 1.3 where the caps say subgroupShuffle, 1.6 where they have
     * matrix2. */
    const uint32_t *spirv;
    size_t spirvBytes;
    const VkSpecializationInfo *specialization;
    /* Dispatches with the same key have the same shader, constants and number of bindings: cache
     * pipelines by this key. */
    uint64_t pipelineKey;
    const vkattn_operand *operands; /* by binding, set 0, all VK_DESCRIPTOR_TYPE_STORAGE_BUFFER */
    uint32_t operandCount;          /* every binding of the layout, in use or not */
    /* 1: create the pipeline with VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT. */
    uint32_t requireFullSubgroups;
    /* VkPipelineShaderStageRequiredSubgroupSizeCreateInfo; 0: none. */
    uint32_t requiredSubgroupSize;
    const void *pushConstants; /* at offset 0 */
    uint32_t pushConstantBytes;
    uint32_t groups[3];
    /* 1: earlier compute writes must be visible to the compute reads and writes that follow. */
    uint32_t barrierBefore;
    uint32_t slice; /* the slice that the dispatch belongs to */
} vkattn_dispatch;

/* A plan as a list of dispatches, and what else a host needs to issue them. */
typedef struct vkattn_dispatch_list {
    uint32_t structSize;
    uint32_t dispatchCount;
    /* In the scratch memory. NULL without scratch, and where there is nothing to compute. */
    const vkattn_dispatch *dispatches;
    size_t scratchBytes;     /* the scratch memory that the list takes */
    const char *kernelName;  /* static storage */
    uint64_t workspaceBytes; /* of the role VKATTN_WORKSPACE; 0: no workspace */
    /* Of the start of each role's memory, workspace included, bytes. */
    uint64_t workspaceAlignment;
    uint64_t persistentWorkspaceBytes;       /* as in vkattn_requirements */
    float probabilityUnit, probabilityFloor; /* as in vkattn_requirements */
} vkattn_dispatch_list;

/* Lists the dispatches of the plan that a context on a device with `caps` would record. The call
 * needs and touches no Vulkan object, and allocates nothing. The memory of each role must begin in
 * its buffer at a multiple of caps->minStorageBufferOffsetAlignment and of 4. The list lies in
 * `scratch`, which is aligned to 8 bytes and has room for scratchBytes. With scratch NULL the call
 * fills in everything but the list, also the bytes that the list takes. `options` are those of
 * vkattnExplain. Set list->structSize first; *list is written only on VKATTN_OK. Pure; any thread.
 * Errors: INVALID_ARGUMENT (also where the scratch is too small), UNSUPPORTED as vkattnQuery. */
VKATTN_API vkattn_result vkattnListDispatches(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_problem *problem,
                                              void *scratch, size_t scratchBytes, vkattn_dispatch_list *list, vkattn_diagnostic *why);

/* Exports the context's pipelines as a blob for the next run. The blob has a header (library
 * version, hash of all shaders, the device's pipelineCacheUUID, vendor, device and driver
 * version, checksum) and the data of vkGetPipelineCacheData. *bytes is the room in `data`, and
 * then the size. `data` NULL asks for the size, which may grow until the next call. A pipeline
 * cache that the host passed is the host's to store: the call is then INVALID_ARGUMENT.
 * Errors: INVALID_ARGUMENT (also too little room), OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY,
 * VULKAN. */
VKATTN_API vkattn_result vkattnExportCache(vkattn_context context, size_t *bytes, void *data, vkattn_diagnostic *why);

/* Imports a blob of vkattnExportCache; pipelines that are compiled from then on use the blob.
 * Returns VKATTN_CACHE_REJECTED with the reason where the blob is damaged, or comes from another
 * library version, shader set, device or driver. Nothing is lost then: pipelines compile as if
 * there were no cache.
 * Bytes that do not carry the checksums of the header never reach the driver. Checksums protect
 * against damage and not against malice: a driver trusts the blob that it is given, so take no
 * blob from people whom you would not let run programs.
 * A context takes up to 7 blobs and rejects further ones; the same blob again counts once.
 * Import once, before pipelines compile.
 * Errors: INVALID_ARGUMENT (also where the host passed a pipeline cache), OUT_OF_HOST_MEMORY,
 * OUT_OF_DEVICE_MEMORY. */
VKATTN_API vkattn_result vkattnImportCache(vkattn_context context, size_t bytes, const void *data, vkattn_diagnostic *why);

/* How far a kernel can be relied on, on one device and driver. */
typedef enum vkattn_verdict {
    VKATTN_VERDICT_TRUSTED = 0, /* the default */
    VKATTN_VERDICT_SLOW = 1,    /* right, but AUTO passes the kernel over */
    /* Quarantined: AUTO passes the kernel over, and problems that ask for it are UNSUPPORTED. */
    VKATTN_VERDICT_WRONG = 2,
    VKATTN_VERDICT_MAX = 0x7fffffff
} vkattn_verdict;

/* Sets the verdict on a kernel for this context's plans from now on; vkattnContextCaps shows
 * verdicts as wrongKernels and slowKernels. The verdict may be your own, or that of an earlier
 * run on the same device and driver version. Any thread: plans under way keep the verdict that
 * they began with, and pipelines stay. Do not change verdicts between the slices of one problem.
 * Errors: INVALID_ARGUMENT, also for VKATTN_KERNEL_AUTO and for VKATTN_KERNEL_STAGED, which is
 * the baseline and has no verdict. */
VKATTN_API vkattn_result vkattnSetVerdict(vkattn_context context, vkattn_kernel kernel, vkattn_verdict verdict, vkattn_diagnostic *why);

/* Says whether unpackHalf2x16 gives each binary16 its value on this device and driver, denormals
 * included: GLSL leaves open whether they are flushed, and asks that it be one or the other
 * throughout. With 1 the flash and decode kernels convert K and V of VKATTN_F16 by that one
 * instruction, and with 0, the default, in ten of integer arithmetic; results are the same. A wrong
 * 1 makes denormals 0. vkattn::Runtime tries it (RuntimeOptions::testHalves), and `vkattn info`
 * shows what it found. vkattnContextCaps shows it as exactHalves. A context with a capsLimit whose
 * exactHalves is 0 refuses 1. Pipelines differ: call before vkattnPrewarm. Any thread, as
 * vkattnSetVerdict.
 * Errors: INVALID_ARGUMENT (neither 0 nor 1, or refused). */
VKATTN_API vkattn_result vkattnSetExactHalves(vkattn_context context, uint32_t exact, vkattn_diagnostic *why);

/* Self-test. Drivers have advertised matrix units that were emulated, slow, or wrong. Before a
 * kernel on matrix units is relied on, compare the kernel once for each device and driver with
 * the staged kernel, which uses nothing that any driver gets wrong:
 *     vkattnSelfTestQuery    says how large a buffer is needed
 *     vkattnSelfTestFill     writes the inputs into the buffer (mapped memory)
 *     vkattnSelfTestRecord   records both kernels on the same inputs into your command buffer;
 *                            submit the command buffer and wait
 *     vkattnSelfTestJudge    compares the outputs (mapped memory) and, where they differ, sets
 *                            VKATTN_VERDICT_WRONG
 * The inputs are fixed: several small problems, among them ordinary ones, causal ones with a
 * ragged edge, and ones with NaN in hidden values. The test takes a few milliseconds on a GPU.
 * vkattn::runtime does all this by itself on first use. */
typedef struct vkattn_self_test {
    uint32_t structSize;
    uint32_t descriptorSetCount;     /* as in vkattn_requirements */
    uint32_t storageDescriptorCount; /* as in vkattn_requirements */
    /* Of one VK_BUFFER_USAGE_STORAGE_BUFFER_BIT range, host-visible memory. */
    uint64_t bufferBytes;
    uint64_t bufferAlignment; /* of the range's offset in the buffer, bytes */
} vkattn_self_test;

/* Returns what the self-test of a kernel needs. Set out->structSize first.
 * Errors: INVALID_ARGUMENT (AUTO and STAGED have no self-test); UNSUPPORTED with the reason
 * where the device cannot run the kernel, or where the kernel is quarantined already. */
VKATTN_API vkattn_result vkattnSelfTestQuery(vkattn_context context, vkattn_kernel kernel, vkattn_self_test *out, vkattn_diagnostic *why);
/* Writes the inputs into bufferBytes of memory at `mapped`. Pure but for the context's caps. You
 * flush memory that is not coherent. */
VKATTN_API vkattn_result vkattnSelfTestFill(vkattn_context context, vkattn_kernel kernel, void *mapped, vkattn_diagnostic *why);
/* Records both kernels, and compiles their pipelines. The host wrote the buffer's range before the
 * submit. Compute shaders write the range afterwards; the barrier to VK_ACCESS_HOST_READ_BIT is
 * recorded too.
 * Errors: as vkattnRecord. */
VKATTN_API vkattn_result vkattnSelfTestRecord(vkattn_context context, vkattn_kernel kernel, VkCommandBuffer commandBuffer,
                                              VkDescriptorPool descriptorPool, VkBuffer buffer, VkDeviceSize offset,
                                              vkattn_diagnostic *why);
/* Compares the outputs at `mapped`, the same memory, after the command buffer has finished.
 * *verdict is TRUSTED, or WRONG with what differed in *why; the call itself returns VKATTN_OK in
 * both cases.
 * Errors: INVALID_ARGUMENT. */
VKATTN_API vkattn_result vkattnSelfTestJudge(vkattn_context context, vkattn_kernel kernel, const void *mapped, vkattn_verdict *verdict,
                                             vkattn_diagnostic *why);

/* The operations of vkattn/operations.h, attention among them, with the life that attention has
 * above. Each call does for any operation what the call of the same name does for a problem, with
 * the same barriers, clobbers, threads and errors. A description of kind VKATTN_ATTENTION is handed
 * to that call. Other operations have one slice, and no kernel to choose: `kernel` is
 * VKATTN_KERNEL_AUTO in what the calls return, and kernelName says what computes. */
VKATTN_API vkattn_result vkattnQueryOperation(vkattn_context context, const vkattn_operation *operation, vkattn_requirements *out,
                                              vkattn_diagnostic *why);
VKATTN_API vkattn_result vkattnExplainOperation(const vkattn_caps *caps, const vkattn_plan_options *options,
                                                const vkattn_operation *operation, vkattn_explanation *out, vkattn_diagnostic *why);
VKATTN_API vkattn_result vkattnPrewarmOperations(vkattn_context context, const vkattn_operation *operations, uint32_t operationCount,
                                                 vkattn_diagnostic *why);
/* An output may be the very memory of an input where vkattn/operations.h allows it: bind both roles
 * at the same offset of the same buffer. */
VKATTN_API vkattn_result vkattnRecordOperation(vkattn_context context, const vkattn_operation *operation, const vkattn_record *record,
                                               vkattn_diagnostic *why);
VKATTN_API vkattn_result vkattnListOperation(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_operation *operation,
                                             void *scratch, size_t scratchBytes, vkattn_dispatch_list *list, vkattn_diagnostic *why);

/* A layer (vkattn/layer.h), recorded into the host's command buffer as attention is. */

/* Sets what the layer's operations need together: dispatches, descriptors, and one workspace for
 * what lies between the steps and for each step's own. pipelineCount counts a pipeline for each step
 * that uses it; kernelName is the attention's.
 * A vkattn_layer is recorded in parts where what lies between its steps is over half of
 * vkattn_host::maxWorkspaceBytes: some batch entries, or some query tokens of one entry, at a time
 * (docs/support.md says when tokens stay together). The parts share the workspace.
 * Errors: as vkattnPlanLayer and vkattnQuery. */
VKATTN_API vkattn_result vkattnQueryLayer(vkattn_context context, const vkattn_layer *layer, vkattn_requirements *out,
                                          vkattn_diagnostic *why);
/* As vkattnPrewarm. */
VKATTN_API vkattn_result vkattnPrewarmLayer(vkattn_context context, const vkattn_layer *layer, vkattn_diagnostic *why);
/* Appends the layer's dispatches and the barriers between them. Bindings name every role that the
 * layer has and VKATTN_WORKSPACE, once each. Y may be the very memory of X, with the same layout, in
 * a layer of VKATTN_NORM_POST or of the residual; outputs and workspace share no byte with anything
 * else.
 * Returns and errors: as vkattnRecord; NOT_READY and a missing binding leave nothing recorded. An
 * overlap that is found at a later step leaves the steps before in the command buffer: reset it. */
VKATTN_API vkattn_result vkattnRecordLayer(vkattn_context context, const vkattn_layer *layer, const vkattn_record *record,
                                           vkattn_diagnostic *why);
/* The same for a latent layer (vkattn/latent_layer.h). Its Y may be the memory of X with the
 * residual; the cache is written, and shares no byte with anything else. */
VKATTN_API vkattn_result vkattnQueryLatentLayer(vkattn_context context, const vkattn_latent_layer *layer, vkattn_requirements *out,
                                                vkattn_diagnostic *why);
VKATTN_API vkattn_result vkattnPrewarmLatentLayer(vkattn_context context, const vkattn_latent_layer *layer, vkattn_diagnostic *why);
VKATTN_API vkattn_result vkattnRecordLatentLayer(vkattn_context context, const vkattn_latent_layer *layer, const vkattn_record *record,
                                                 vkattn_diagnostic *why);
/* The same for the gradients of a layer (vkattn/layer_gradient.h). Bindings name every role that a
 * step of vkattnPlanLayerGradient takes its memory from, and VKATTN_WORKSPACE. The host places a barrier
 * between the layer and its gradient. No output shares a byte with anything else. */
VKATTN_API vkattn_result vkattnQueryLayerGradient(vkattn_context context, const vkattn_layer_gradient *gradient, vkattn_requirements *out,
                                                  vkattn_diagnostic *why);
VKATTN_API vkattn_result vkattnPrewarmLayerGradient(vkattn_context context, const vkattn_layer_gradient *gradient, vkattn_diagnostic *why);
VKATTN_API vkattn_result vkattnRecordLayerGradient(vkattn_context context, const vkattn_layer_gradient *gradient,
                                                   const vkattn_record *record, vkattn_diagnostic *why);

/* Returns how many pipelines this context has compiled so far, and the nanoseconds that
 * vkCreateComputePipelines took. */
VKATTN_API void vkattnCompileStatistics(vkattn_context context, uint32_t *pipelines, uint64_t *nanoseconds);

#ifdef __cplusplus
}
#endif
#endif
