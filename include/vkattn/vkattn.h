/* vkattn/vkattn.h: attention on your Vulkan device, recorded into your command buffer. C99 and C++;
 * includes only vulkan_core.h and works with VK_NO_PROTOTYPES. Target vkattn::core. This header is
 * the manual.
 *
 * The library finds Vulkan only through the vkGetInstanceProcAddr that you pass. It creates no
 * instance, device, queue or memory; never submits, waits, or sees a queue; has no globals,
 * threads, files, environment variables or output.
 *
 *   vkattnDeviceExtensions, vkattnPatchDeviceFeatures   before vkCreateDevice: what to enable
 *   vkattnCreateContext   once per device, from your handles
 *   vkattnImportCache     pipelines of an earlier run (vkattnExportCache)
 *   vkattnQuery           how large a workspace, which kernel, or unsupported and why
 *   vkattnExplain         the same in detail, from caps alone; vkattnExplainKernel: why not another
 *                         kernel
 *   vkattnPrewarm         compile the pipelines a problem needs, on any thread
 *   vkattnRecord          append the dispatches, or one slice of them, to a command buffer
 *   vkattnListDispatches  the same dispatches as plain data, for engines that issue commands
 *                         through a layer of their own
 *
 * Barriers. Before: inputs visible to VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT /
 * VK_ACCESS_SHADER_READ_BIT; outputs and workspace free to be written, and outputs of dtype f16 or
 * bf16 also to be read, by the same stage (VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT).
 * Inside: vkattnRecord places compute-to-compute memory barriers where its own dispatches depend on
 * each other. After: outputs were written by VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT /
 * VK_ACCESS_SHADER_WRITE_BIT; making them visible is yours, and so is protecting the workspace
 * before it is used again. No image is touched and no ownership is transferred: where Q, K, V or
 * outputs come from or go to another queue family, the release and acquire are yours.
 *
 * Slices. A problem with sliceCount n > 1 is recorded in n calls, sliceIndex 0 to n - 1, each once
 * and in this order of execution, in one command buffer or in many, in one frame or in many. On one
 * queue nothing is needed between them. On several queues a semaphore (timeline or binary) makes
 * slice i + 1 wait for slice i at VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT. Between the first and the
 * last slice the inputs must not change, outputs hold what is finished so far, and the first
 * persistentWorkspaceBytes of the workspace must stay as they are; the rest of the workspace may be
 * used for other things between two slices, under the same barriers as between two problems.
 *
 * Clobbers, in the command buffer: the compute pipeline; compute descriptor set 0 and with it, by
 * Vulkan's pipeline layout compatibility, whatever compute sets you had bound above it; push
 * constants [0, 128). Nothing else.
 *
 * Threads. Every call on one context may run at the same time on any thread, except
 * vkattnDestroyContext; command buffers and descriptor pools are externally synchronised as in
 * Vulkan.
 *
 * Structs. structSize is the struct's sizeof in the headers that the caller was compiled with; set
 * it in every struct that has one, those that a call fills in included. A shorter struct is one of
 * an earlier version: the fields that it lacks count as zero, which is every field's default, and
 * are not written. A longer one is refused: the library is older than the headers.
 *
 * Lifetime. No pointer is kept after a call, but for the callbacks and their user data (until the
 * context is destroyed) and your pipeline cache handle.
 */
#ifndef VKATTN_VKATTN_H_
#define VKATTN_VKATTN_H_

#include "vkattn/problem.h"

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

/* (major << 22) | (minor << 12) | patch of the library that is linked, as VK_MAKE_VERSION does. */
VKATTN_API uint32_t vkattnVersion(void);
/* Of all shaders of the library: what was found with one hash (verdicts, measurements) says
 * nothing about another. Pure; any thread. */
VKATTN_API uint64_t vkattnShaderHash(void);

/* A shape that the matrix units of a device multiply in one subgroup: C (m x n, f32) += A (m x
 * k) B (k x n). */
typedef struct vkattn_matrix_shape {
    uint32_t m, n, k;
    vkattn_dtype inputs; /* of A and B: VKATTN_F16 or VKATTN_BF16 */
} vkattn_matrix_shape;

#define VKATTN_MAX_MATRIX_SHAPES 12

/* Features of VK_NV_cooperative_matrix2, as far as kernels use them. */
typedef enum vkattn_matrix2_bits {
    VKATTN_MATRIX2_FLEXIBLE = 1,         /* cooperativeMatrixFlexibleDimensions */
    VKATTN_MATRIX2_REDUCTIONS = 2,       /* cooperativeMatrixReductions */
    VKATTN_MATRIX2_CONVERSIONS = 4,      /* cooperativeMatrixConversions */
    VKATTN_MATRIX2_PER_ELEMENT = 8,      /* cooperativeMatrixPerElementOperations */
    VKATTN_MATRIX2_TENSOR_LOADS = 16,    /* cooperativeMatrixTensorAddressing */
    VKATTN_MATRIX2_WORKGROUP_SCOPE = 32, /* cooperativeMatrixWorkgroupScope */
    VKATTN_MATRIX2_MAX = 0x7fffffff
} vkattn_matrix2_bits;

/* What planning needs to know of a device: plain data, so that plans can be made without one. */
typedef struct vkattn_caps {
    uint32_t structSize;
    /* VkPhysicalDeviceType: CPU devices get other tiles than GPUs. */
    uint32_t deviceType;
    uint32_t maxStorageBufferRange;           /* bytes */
    uint32_t minStorageBufferOffsetAlignment; /* bytes */
    uint32_t maxStorageBuffersPerStage;
    uint32_t maxPushConstantsBytes;
    uint32_t maxWorkgroupInvocations;
    uint32_t maxWorkgroupSize[3];
    uint32_t maxWorkgroupCount[3];
    uint32_t maxSharedMemoryBytes;
    uint32_t pushDescriptors; /* 1: VK_KHR_push_descriptor is enabled */
    uint32_t subgroupSize;    /* lanes; 0: unknown (Vulkan 1.0) */
    /* 1: shuffle and vote operations in compute shaders, and SPIR-V 1.3 */
    uint32_t subgroupShuffle;
    uint32_t subgroupClustered; /* 1: clustered operations as well */
    /* 1: computeFullSubgroups is enabled: pipelines with subgroup operations require whole
       subgroups */
    uint32_t fullSubgroups;
    /* 1: shaderSignedZeroInfNanPreserveFloat32: NaN rules are guaranteed (docs/numerics.md 4) */
    uint32_t floatControlsNan;
    /* Lanes that a compute pipeline may require, a power of two (subgroupSizeControl is
       enabled); 0: none. */
    uint32_t minSubgroupSize;
    uint32_t maxSubgroupSize;
    uint32_t maxWorkgroupSubgroups; /* of a workgroup with a required size; 0 where there is none */
    /* Matrix units: shapes of subgroup scope with f16 or bf16 inputs and f32 sums, in the
       device's order. 0: none, or one of cooperativeMatrix, shaderFloat16, vulkanMemoryModel and
       computeFullSubgroups is not enabled (bf16 shapes also take
       shaderBFloat16CooperativeMatrix) */
    uint32_t matrixShapeCount;
    vkattn_matrix_shape matrixShapes[VKATTN_MAX_MATRIX_SHAPES];
    uint32_t matrix2 VKATTN_EXPERIMENTAL; /* vkattn_matrix2_bits that are enabled */
    /* With VKATTN_MATRIX2_FLEXIBLE, of f16 inputs and f32 sums at subgroup scope: any m, n and k
       that are multiples of these, up to matrix2MaxDimension; 0: none */
    uint32_t matrix2Granularity[3] VKATTN_EXPERIMENTAL;
    uint32_t matrix2MaxDimension VKATTN_EXPERIMENTAL;
    /* 1 << vkattn_kernel: refused, because their self-test failed on this device and driver
       (vkattnSetVerdict) */
    uint32_t wrongKernels;
    /* 1 << vkattn_kernel: never chosen by AUTO, because others were measured to be faster */
    uint32_t slowKernels;
} vkattn_caps;

typedef enum vkattn_log_level {
    /* What a call did that took long: pipelines compiled, a cache imported. */
    VKATTN_LOG_INFO = 0,
    /* It works, but not as well as it could: a cache rejected, a declared extension whose
       functions are missing, a device that could do more than vkattn_host declares. */
    VKATTN_LOG_WARNING = 1,
    /* The message of a call that failed, also where no diagnostic was passed. */
    VKATTN_LOG_ERROR = 2,
    VKATTN_LOG_MAX = 0x7fffffff
} vkattn_log_level;

typedef struct vkattn_host {
    uint32_t structSize;
    /* The VkApplicationInfo::apiVersion that the instance was created with; 0 = 1.0, without
       subgroup operations. */
    uint32_t apiVersion;
    VkInstance instance;
    VkPhysicalDevice physicalDevice;
    VkDevice device;
    PFN_vkGetInstanceProcAddr getInstanceProcAddr;
    /* device extensions the device was created with: Vulkan cannot be asked later */
    const char *const *enabledExtensions;
    uint32_t enabledExtensionCount;
    /* optional; stays yours; must outlive the context; not one created with
       VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT: prewarming threads share it */
    VkPipelineCache pipelineCache;
    const VkAllocationCallbacks *allocator; /* optional; the callbacks must outlive the context */
    /* problems are cut into chunks to stay below; 0 = 64 MiB. A plan that cannot stay below even
       with one query row at a time asks for what one row takes */
    uint64_t maxWorkspaceBytes;
    /* Optional: a tuning file's bytes, as `vkattn tune` writes it (docs/tuning.md). */
    const void *tuning;
    size_t tuningBytes;
    /* Optional: plan as if the device had at most this (test weak devices on strong ones). */
    const vkattn_caps *capsLimit;
    /* Optional: the chain the device was created with; a feature that is not in it is not used.
       Read during the call, not kept. */
    const VkPhysicalDeviceFeatures2 *enabledFeatures;
    /* 1: the instance enabled VK_EXT_debug_utils: dispatches get labels and pipelines names */
    uint32_t debugLabels;
    void *userData; /* passed to the callbacks */
    /* optional; silent without. Called during a call on the context, on its thread. */
    void (*log)(void *userData, vkattn_log_level level, const char *message);
    /* optional: brackets what vkattnRecord records, for Tracy or your own timestamps: name at
       the begin of a zone, NULL at its end. Zones are properly nested: one for the call, in it
       one for each dispatch (with the barrier before it). `name` is static storage. */
    void (*zone)(void *userData, VkCommandBuffer commandBuffer, const char *name);
} vkattn_host;

typedef struct vkattn_requirements {
    uint32_t structSize;
    uint32_t dispatchCount; /* what vkattnRecord will record */
    uint32_t pipelineCount; /* distinct pipelines that it uses */
    /* From the pool, where the device lacks push descriptors, else 0. */
    uint32_t descriptorSetCount;
    /* VK_DESCRIPTOR_TYPE_STORAGE_BUFFER descriptors from the pool, likewise. */
    uint32_t storageDescriptorCount;
    /* Pieces the problem was cut into to meet limits; 1 = whole, 0 = nothing to compute. */
    uint32_t chunkCount;
    uint64_t workspaceBytes;     /* 0: none needed */
    uint64_t workspaceAlignment; /* of the binding's offset, bytes */
    const char *kernelName;      /* as vkattnKernelName says */
    /* With slices: from the workspace's start, kept from the first slice to the last; 0: none. */
    uint64_t persistentWorkspaceBytes;
    /* So many slices have work at most; those of a larger sliceCount that have none record
       nothing. */
    uint32_t maxSlices;
    /* How far the kernel rounds the weights that it multiplies values with, for vkattnCpuVerify
       (docs/numerics.md, u_P): relative, and absolute for tiny ones. 0: not beyond f32. */
    float probabilityUnit, probabilityFloor;
    vkattn_kernel kernel; /* which computes; never AUTO */
} vkattn_requirements;

typedef struct vkattn_binding {
    vkattn_role role;
    VkBuffer buffer;     /* VK_BUFFER_USAGE_STORAGE_BUFFER_BIT */
    VkDeviceSize offset; /* bytes; a multiple of the dtype's size (workspace: workspaceAlignment) */
    /* bytes that may be touched from offset. Storage is read in 32-bit words, so bytes up to the
       next multiple of 4 of the buffer are touched too and must exist in the buffer: make
       buffers a multiple of 4 bytes long */
    VkDeviceSize size;
} vkattn_binding;

typedef struct vkattn_record {
    uint32_t structSize;
    uint32_t allowCompile;         /* 0: never compile here; answer VKATTN_NOT_READY instead */
    VkCommandBuffer commandBuffer; /* compute-capable family, recording, outside a render pass */
    const vkattn_binding *bindings;
    uint32_t bindingCount;
    /* Only where requirements.descriptorSetCount > 0; the sets die with the pool. */
    VkDescriptorPool descriptorPool;
    uint32_t sliceIndex; /* below the problem's sliceCount; 0 where that is 0 or 1 */
} vkattn_record;

typedef struct vkattn_context_t *vkattn_context;

typedef enum vkattn_need {
    VKATTN_REQUIRED = 0, /* without it vkattnCreateContext fails. Today: none */
    VKATTN_HELPFUL = 1,  /* with it something is faster or guaranteed; everything works without */
    VKATTN_NEED_MAX = 0x7fffffff
} vkattn_need;

/* A device before there is a VkDevice. */
typedef struct vkattn_physical_device {
    uint32_t structSize;
    /* The VkApplicationInfo::apiVersion that the instance was created with; 0 = 1.0, without
       subgroup operations. */
    uint32_t apiVersion;
    VkInstance instance;
    VkPhysicalDevice physicalDevice;
    PFN_vkGetInstanceProcAddr getInstanceProcAddr;
} vkattn_physical_device;

/* Before vkCreateDevice: the device extensions to enable. Required ones are listed whether or
 * not the device has them, helpful ones where it has them and where the instance (apiVersion)
 * allows their use; an extension that is part of the usable core version is not listed. *count:
 * room in names, then how many there are; names NULL asks for the count. Names are static
 * storage. Errors: INVALID_ARGUMENT (also where names has too little room: *count then says how
 * much is needed), OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, VULKAN. */
VKATTN_API vkattn_result vkattnDeviceExtensions(const vkattn_physical_device *device, vkattn_need need, uint32_t *count, const char **names,
                                                vkattn_diagnostic *why);

/* Caller-owned room for the structs that vkattnPatchDeviceFeatures links in. */
typedef struct vkattn_feature_storage {
    uint64_t bytes[64];
} vkattn_feature_storage;

/* Before vkCreateDevice: sets, in the chain that you will pass as VkDeviceCreateInfo::pNext, the
 * features that help and that the device has (`extensions`: those that the device will be
 * created with). Bits are only ever set, never cleared. A struct that is in the chain already is
 * used, an aggregate (VkPhysicalDeviceVulkan11/12/13Features) in place of its parts; a struct
 * that is missing is taken from *room and linked at the end of the chain, so *room must live as
 * long as the chain is used. Pass the same chain as vkattn_host::enabledFeatures.
 * Errors: INVALID_ARGUMENT. */
VKATTN_API vkattn_result vkattnPatchDeviceFeatures(const vkattn_physical_device *device, const char *const *extensions,
                                                   uint32_t extensionCount, VkPhysicalDeviceFeatures2 *chain, vkattn_feature_storage *room,
                                                   vkattn_diagnostic *why);

/* What a context on such a device would plan with, before any VkDevice exists. `extensions` and
 * `features` (optional) are those that the device would be created with; set out->structSize
 * first. */
VKATTN_API vkattn_result vkattnPhysicalDeviceCaps(const vkattn_physical_device *device, const char *const *extensions,
                                                  uint32_t extensionCount, const VkPhysicalDeviceFeatures2 *features, vkattn_caps *out,
                                                  vkattn_diagnostic *why);

/* The least that a Vulkan 1.0 device may have (the specification's table "Required Limits"),
 * without any extension or feature: as vkattn_host::capsLimit it makes any device the weakest.
 * Set out->structSize first. Pure; any thread. Errors: INVALID_ARGUMENT. */
VKATTN_API vkattn_result vkattnMinimumCaps(vkattn_caps *out, vkattn_diagnostic *why);

/* The kernels of this library, VKATTN_KERNEL_STAGED first: writes at most `capacity` of them to
 * `out` and returns how many there are. AUTO is none of them. Pure; any thread. */
VKATTN_API uint32_t vkattnKernels(vkattn_kernel *out, uint32_t capacity);
/* "staged", "flash", ..., and "auto" for VKATTN_KERNEL_AUTO: static storage. NULL for a value
 * that is no kernel. */
VKATTN_API const char *vkattnKernelName(vkattn_kernel kernel);

typedef enum vkattn_kernel_trait_bits {
    VKATTN_KERNEL_TRAIT_WEIGHTS = 1, /* takes problems with VKATTN_WEIGHTS */
    /* Runs on matrix units: q, k and v all f16 or all bf16; a self-test should come before. */
    VKATTN_KERNEL_TRAIT_MATRIX_UNITS = 2,
    VKATTN_KERNEL_TRAIT_MAX = 0x7fffffff
} vkattn_kernel_trait_bits;
/* vkattn_kernel_trait_bits; 0 for AUTO and for a value that is no kernel. */
VKATTN_API uint32_t vkattnKernelTraits(vkattn_kernel kernel);

/* VKATTN_OK where a device with these caps can run the kernel, UNSUPPORTED with the reason where
 * the device cannot, INVALID_ARGUMENT for AUTO and for a value that is no kernel. Where the
 * kernel can run some problems only, VKATTN_OK, and *why says which; why->message is empty where
 * the kernel can run all. */
VKATTN_API vkattn_result vkattnKernelSupport(const vkattn_caps *caps, vkattn_kernel kernel, vkattn_diagnostic *why);

/* Creates a context on your device. *out is NULL on failure. Allocates host memory through
 * host->allocator; the only Vulkan objects are descriptor set layouts, pipeline layouts and a
 * pipeline cache, later pipelines, shader modules and imported caches. Errors: INVALID_ARGUMENT,
 * UNSUPPORTED (the device is below the Vulkan 1.0 minimum limits), OUT_OF_HOST_MEMORY,
 * OUT_OF_DEVICE_MEMORY, VULKAN. */
VKATTN_API vkattn_result vkattnCreateContext(const vkattn_host *host, vkattn_context *out, vkattn_diagnostic *why);

/* You guarantee that no command buffer that was recorded with it is still pending. Does not
 * wait. NULL is ignored. */
VKATTN_API void vkattnDestroyContext(vkattn_context context);

/* The caps that plans are made from. Set out->structSize first. */
VKATTN_API vkattn_result vkattnContextCaps(vkattn_context context, vkattn_caps *out);

/* Plans without touching Vulkan. Set out->structSize first. Errors: INVALID_ARGUMENT;
 * UNSUPPORTED with the reason, in which case the CPU (vkattn/cpu.h) takes the same problem. */
VKATTN_API vkattn_result vkattnQuery(vkattn_context context, const vkattn_problem *problem, vkattn_requirements *out,
                                     vkattn_diagnostic *why);

/* What the planner chooses on a device with such caps, why, and what that costs. For people,
 * logs and measurement: nothing here is needed to record. Numbers that a kernel has no use for
 * are 0. */
typedef struct vkattn_explanation {
    uint32_t structSize;
    vkattn_kernel kernel;   /* never AUTO */
    const char *kernelName; /* as vkattnKernelName says */
    /* e.g. "rows in lanes", static storage; empty where the kernel has one form only */
    const char *form;
    uint32_t rowsPerWorkgroup; /* of the main dispatches, and likewise the following */
    uint32_t keysPerStep;
    uint32_t packedHeads;   /* query heads of a group that share a tile as rows */
    uint32_t splits;        /* pieces that the keys of a row are split into to run side by side */
    uint32_t dispatchCount; /* these three as in vkattn_requirements */
    uint32_t pipelineCount;
    uint32_t chunkCount;
    uint32_t groups[3];            /* of the first main dispatch */
    uint32_t workgroupInvocations; /* of the first main dispatch */
    uint64_t workspaceBytes;
    /* What is computed: pairs that causal, window and lengths known here leave visible by
       position. */
    double flops;
    double flopsFull; /* as if nothing were hidden */
    double bytesRead, bytesWritten;
    uint32_t sliceCount;               /* the problem's, at least 1 */
    uint32_t maxSlices;                /* as in vkattn_requirements, and likewise the next */
    uint64_t persistentWorkspaceBytes; /* bytes */
    /* Its share of the work, by the planner's estimate: near 1 / sliceCount. */
    double largestSlice;
    float probabilityUnit; /* as in vkattn_requirements, and likewise the next */
    float probabilityFloor;
    char choice[508]; /* UTF-8, zero-terminated: why this kernel */
    /* What the main pipeline costs to compile: operations of a lane with its loops unrolled, for
     * the types and options that take most; 0 on matrix units, where there is no estimate.
     * Software drivers compile at the first dispatch, about 1 s for every 1000. */
    uint64_t compileOperations;
    /* What a built-in tile may have on such a device; rows of a tuning file may have more. */
    uint64_t compileLimit;
    /* Of the tile that would come first for these dims and is over the limit; 0: the first is
       taken. */
    uint64_t passedOverOperations;
} vkattn_explanation;

/* How plans that need no context are made. NULL or zero is the default. The bytes are read
 * during the call only. */
typedef struct vkattn_plan_options {
    uint32_t structSize;
    uint32_t reserved;          /* 0 */
    uint64_t maxWorkspaceBytes; /* 0: 64 MiB */
    /* A tuning file's bytes, as `vkattn tune` writes it (docs/tuning.md); NULL: none. */
    const void *tuning;
    size_t tuningBytes;
} vkattn_plan_options;

/* Plans `problem` for a device with `caps` (vkattnContextCaps, vkattnPhysicalDeviceCaps, or made
 * up) without any Vulkan object, as a context on such a device would. `options` may be NULL. Set
 * out->structSize first; written only on VKATTN_OK. Pure; any thread. Errors: INVALID_ARGUMENT;
 * UNSUPPORTED with the reason, where vkattnQuery says so too. */
VKATTN_API vkattn_result vkattnExplain(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_problem *problem,
                                       vkattn_explanation *out, vkattn_diagnostic *why);

/* Why the planner does not take `kernel` for the problem where vkattnExplain, with the same
 * arguments, says what the planner takes. VKATTN_OK where the kernel can compute the problem:
 * *why then says what speaks against it and what it would cost, and why->message is empty where
 * the planner takes this very kernel. UNSUPPORTED with the reason where the kernel cannot. Pure;
 * any thread. Further errors: INVALID_ARGUMENT, also for AUTO and for a value that is no kernel. */
VKATTN_API vkattn_result vkattnExplainKernel(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_problem *problem,
                                             vkattn_kernel kernel, vkattn_diagnostic *why);

/* Compiles the pipelines that the problems need and that are not there yet. Slow; any thread. */
VKATTN_API vkattn_result vkattnPrewarm(vkattn_context context, const vkattn_problem *problems, uint32_t problemCount,
                                       vkattn_diagnostic *why);

/* Appends the problem's dispatches and the barriers between them. Bindings: every role that the
 * problem uses, once each, and VKATTN_WORKSPACE where workspaceBytes > 0. Input bindings may
 * overlap each other (V may be a view into K). Outputs and the workspace share no byte with
 * anything else, which is checked within each buffer by the bytes that the elements take,
 * whatever the bindings' sizes: operands may take turns in one tensor (heads or tokens of a
 * fused Q, K, V and output) where a stride of one of the two separates them. Two VkBuffers in
 * the same memory look different to the check. Returns NOT_READY where a pipeline is missing and
 * allowCompile is 0, with the pipeline's name and what to do in *why: nothing was recorded.
 * Errors before anything is recorded: INVALID_ARGUMENT, UNSUPPORTED, and with allowCompile what
 * compiling answers (OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, DEVICE_LOST, VULKAN). Where the
 * descriptor pool is exhausted or its memory is: OUT_OF_DEVICE_MEMORY or OUT_OF_HOST_MEMORY
 * (VULKAN where the driver says something else), and the command buffer may hold part of the
 * work: reset it. */
VKATTN_API vkattn_result vkattnRecord(vkattn_context context, const vkattn_problem *problem, const vkattn_record *record,
                                      vkattn_diagnostic *why);

/* How many slices keep each below `microseconds` of device time, as far as the tuning data of
 * the context knows the device's rate (`vkattn tune`): sets *sliceCount (at least 1) for the
 * problem's sliceCount; the problem's own is not looked at. An estimate, no promise: clocks
 * change and other work shares the device. Errors: INVALID_ARGUMENT; UNSUPPORTED where the
 * context has no tuning data with a rate for the kernel and head dim that the problem takes, or
 * where not even maxSlices slices would be short enough. */
VKATTN_API vkattn_result vkattnSlicesForBudget(vkattn_context context, const vkattn_problem *problem, double microseconds,
                                               uint32_t *sliceCount, vkattn_diagnostic *why);

/* A range of a role's memory that a dispatch binds as a storage buffer. */
typedef struct vkattn_operand {
    vkattn_role role;
    uint32_t writes; /* 1: written (and for f16 and bf16 also read); 0: only read */
    /* From the start of the role's memory; a multiple of the caps'
       minStorageBufferOffsetAlignment and of 4. */
    uint64_t offsetBytes;
    uint64_t sizeBytes; /* a multiple of 4: may end up to 3 bytes past the role's last element */
} vkattn_operand;

/* One dispatch of a plan, for engines that issue commands through a layer of their own. All
 * pointers lead into the scratch memory or to static storage. */
typedef struct vkattn_dispatch {
    const char *name; /* of the shader */
    /* Entry point "main"; SPIR-V 1.0, 1.3 where the caps say subgroupShuffle, 1.6 where they
       have matrix2. */
    const uint32_t *spirv;
    size_t spirvBytes;
    const VkSpecializationInfo *specialization;
    /* dispatches with the same key have the same shader, constants and binding count: cache
       pipelines by it */
    uint64_t pipelineKey;
    /* By binding number, set 0, all VK_DESCRIPTOR_TYPE_STORAGE_BUFFER. */
    const vkattn_operand *operands;
    uint32_t operandCount; /* every binding of the layout, in use or not */
    /* 1: create the pipeline with VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT */
    uint32_t requireFullSubgroups;
    /* VkPipelineShaderStageRequiredSubgroupSizeCreateInfo; 0: none. */
    uint32_t requiredSubgroupSize;
    const void *pushConstants; /* at offset 0 */
    uint32_t pushConstantBytes;
    uint32_t groups[3];
    /* 1: compute writes before must be visible to compute reads and writes after */
    uint32_t barrierBefore;
    uint32_t slice; /* the slice that it belongs to */
} vkattn_dispatch;

/* A plan as a list of dispatches, and what else a host needs to issue them. */
typedef struct vkattn_dispatch_list {
    uint32_t structSize;
    uint32_t dispatchCount;
    /* In the scratch memory; NULL without scratch, and where there is nothing to compute. */
    const vkattn_dispatch *dispatches;
    size_t scratchBytes;     /* that the list takes */
    const char *kernelName;  /* static storage */
    uint64_t workspaceBytes; /* of the role VKATTN_WORKSPACE; 0: none */
    /* Of the beginning of each role's memory, the workspace's included, bytes. */
    uint64_t workspaceAlignment;
    uint64_t persistentWorkspaceBytes; /* as in vkattn_requirements, and likewise the next */
    float probabilityUnit, probabilityFloor;
} vkattn_dispatch_list;

/* The plan that a context on a device with `caps` would record, as a list of dispatches; no
 * Vulkan object is needed or touched, and nothing is allocated. Memory of each role must begin
 * at a multiple of caps->minStorageBufferOffsetAlignment (and of 4) in its buffer. The list lies
 * in `scratch` (aligned to 8 bytes), which has room for scratchBytes; with scratch NULL
 * everything but the list is filled in, what room it takes included. `options` as in
 * vkattnExplain. Set list->structSize first; written only on VKATTN_OK. Pure; any thread.
 * Errors: INVALID_ARGUMENT (also where the scratch is too small), UNSUPPORTED as vkattnQuery. */
VKATTN_API vkattn_result vkattnListDispatches(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_problem *problem,
                                              void *scratch, size_t scratchBytes, vkattn_dispatch_list *list, vkattn_diagnostic *why);

/* Pipelines as a blob, for the next run: a header (library version, hash of all shaders, the
 * device's pipelineCacheUUID, vendor, device and driver version, checksum) and what
 * vkGetPipelineCacheData gives. *bytes: room in data, then the size; data NULL asks for the
 * size, which may grow until the next call. Not where the host passed a pipeline cache: that one
 * is the host's to store (INVALID_ARGUMENT). Errors: INVALID_ARGUMENT (also too little room),
 * OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, VULKAN. */
VKATTN_API vkattn_result vkattnExportCache(vkattn_context context, size_t *bytes, void *data, vkattn_diagnostic *why);

/* Takes a blob that vkattnExportCache made; pipelines compiled from then on use it.
 * VKATTN_CACHE_REJECTED, with the reason, where it is of another library version, shader set,
 * device or driver, or damaged: nothing is lost, pipelines compile as if there were no cache.
 * Bytes that do not carry the checksums of the header never reach the driver; they protect
 * against damage, not against malice: a driver trusts what it is given, so take no blob from
 * people whom you would not let run programs. A context takes up to 7 blobs (the same one again
 * counts once) and rejects those past that: import once, before pipelines compile. Errors:
 * INVALID_ARGUMENT (also where the host passed a pipeline cache), OUT_OF_HOST_MEMORY,
 * OUT_OF_DEVICE_MEMORY. */
VKATTN_API vkattn_result vkattnImportCache(vkattn_context context, size_t bytes, const void *data, vkattn_diagnostic *why);

/* How far a kernel can be relied on, on one device and driver. */
typedef enum vkattn_verdict {
    VKATTN_VERDICT_TRUSTED = 0, /* the default */
    VKATTN_VERDICT_SLOW = 1,    /* right, but AUTO passes it over */
    /* Quarantined: AUTO passes it over, and problems that ask for it are UNSUPPORTED. */
    VKATTN_VERDICT_WRONG = 2,
    VKATTN_VERDICT_MAX = 0x7fffffff
} vkattn_verdict;

/* Sets what this context's plans hold of a kernel from now on (vkattnContextCaps shows it as
 * wrongKernels and slowKernels): for verdicts of an earlier run on the same device and driver
 * version, or your own. Any thread; plans under way keep the verdict they began with, and
 * pipelines stay. Between the slices of one problem do not change verdicts. Errors:
 * INVALID_ARGUMENT, also for VKATTN_KERNEL_AUTO and STAGED, which is the baseline and has no
 * verdict. */
VKATTN_API vkattn_result vkattnSetVerdict(vkattn_context context, vkattn_kernel kernel, vkattn_verdict verdict, vkattn_diagnostic *why);

/* Self-test. Drivers have advertised matrix units that were emulated, slow, or wrong. Before a
 * kernel of them is relied on, compare it once for each device and driver with the staged
 * kernel, which uses nothing that any driver gets wrong:
 *     vkattnSelfTestQuery    how large a buffer
 *     vkattnSelfTestFill     writes the inputs into it (mapped memory)
 *     vkattnSelfTestRecord   records both kernels on the same inputs into your command buffer;
 *                            submit it and wait
 *     vkattnSelfTestJudge    compares (mapped memory) and, where they differ, sets
 *                            VKATTN_VERDICT_WRONG
 * The inputs are fixed: several small problems, ordinary ones, causal ones with a ragged edge,
 * and ones with NaN in hidden values; a few milliseconds on a GPU. vkattn::runtime does all this
 * by itself on first use. */
typedef struct vkattn_self_test {
    uint32_t structSize;
    /* From the pool, as in vkattn_requirements, and likewise the next. */
    uint32_t descriptorSetCount;
    uint32_t storageDescriptorCount;
    /* Of one VK_BUFFER_USAGE_STORAGE_BUFFER_BIT range in host-visible memory. */
    uint64_t bufferBytes;
    uint64_t bufferAlignment; /* of its offset in the buffer, bytes */
} vkattn_self_test;

/* Set out->structSize first. Errors: INVALID_ARGUMENT (AUTO and STAGED have no self-test);
 * UNSUPPORTED with the reason where the device cannot run the kernel, or where it is quarantined
 * already. */
VKATTN_API vkattn_result vkattnSelfTestQuery(vkattn_context context, vkattn_kernel kernel, vkattn_self_test *out, vkattn_diagnostic *why);
/* `mapped`: bufferBytes of memory, written. Pure but for the context's caps; flushing is yours
 * where the memory is not coherent. */
VKATTN_API vkattn_result vkattnSelfTestFill(vkattn_context context, vkattn_kernel kernel, void *mapped, vkattn_diagnostic *why);
/* Records with compiling. The buffer's range was written by the host before the submit;
 * afterwards it is written by compute shaders, and the barrier to VK_ACCESS_HOST_READ_BIT is
 * recorded too. Errors: as vkattnRecord. */
VKATTN_API vkattn_result vkattnSelfTestRecord(vkattn_context context, vkattn_kernel kernel, VkCommandBuffer commandBuffer,
                                              VkDescriptorPool descriptorPool, VkBuffer buffer, VkDeviceSize offset,
                                              vkattn_diagnostic *why);
/* `mapped`: the same memory after the command buffer has finished. *verdict: TRUSTED, or WRONG
 * with what differed in *why (the call itself is then VKATTN_OK). Errors: INVALID_ARGUMENT. */
VKATTN_API vkattn_result vkattnSelfTestJudge(vkattn_context context, vkattn_kernel kernel, const void *mapped, vkattn_verdict *verdict,
                                             vkattn_diagnostic *why);

/* How many pipelines this context has compiled so far, and the nanoseconds that
 * vkCreateComputePipelines took. */
VKATTN_API void vkattnCompileStatistics(vkattn_context context, uint32_t *pipelines, uint64_t *nanoseconds);

#ifdef __cplusplus
}
#endif
#endif
