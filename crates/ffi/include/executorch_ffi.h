/*
 * libexecutorch_ffi: run ExecuTorch programs (.pte) from any language that can call C.
 *
 *     ETModule *module = NULL;
 *     ETStatus *status = et_module_load_file("model.pte", &module);
 *     if (status->code != ET_OK) { fprintf(stderr, "%s\n", status->message); }
 *     et_status_free(status);
 *
 * Rules that hold everywhere:
 *
 *  - A call that can fail returns an ETStatus, also when it succeeds. Free it with et_status_free. Success costs no
 *    allocation. Results go through the last pointers of a call and are written only on success.
 *  - Who makes a thing frees it with the function named after it. Every free function accepts NULL. Freeing a thing
 *    twice, or using it after it was freed, is undefined, as in C. Everything else is an error: a NULL pointer, a negative
 *    count, a shape whose product overflows, a wrong method, dtype, shape or number of inputs.
 *  - Pointers into a thing ("borrowed") are valid until that thing is freed. Strings are UTF-8 and end with a zero byte.
 *  - Threads: modules, sessions' modules and statuses may be used from any thread at any time. A module runs one call at a
 *    time; further calls wait. To run in parallel over one copy of the weights, give each thread a session. Tensors,
 *    options and sessions are for one thread at a time. Freeing a module waits for what runs in it.
 *  - Structs that callers fill start with `size`, the size of the struct as the caller knows it, so that later versions
 *    can add fields. Zero is the default of every other field: `ETLoadOptions options = {.size = sizeof options};` is as
 *    good as et_load_options_init(&options).
 *
 * The first part is that of executorch_native: same names, numbers, layouts and ownership. The second part goes further.
 */
#ifndef EXECUTORCH_FFI_H
#define EXECUTORCH_FFI_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && !defined(EXECUTORCH_FFI_STATIC)
#  if defined(EXECUTORCH_FFI_EXPORTS)
#    define ET_API __declspec(dllexport)
#  else
#    define ET_API __declspec(dllimport)
#  endif
#elif defined(__GNUC__)
#  define ET_API __attribute__((visibility("default")))
#else
#  define ET_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Types
 * ------------------------------------------------------------------------------------------------------------------ */

/* How a call went. */
typedef enum ETErrorCode {
    ET_OK = 0,
    ET_INVALID_ARGUMENT = 1,   /* the call itself is wrong: NULL, count, shape, dtype, method */
    ET_OUT_OF_MEMORY = 2,      /* memory could not be had, or is more than the limits allow */
    ET_MODEL_LOAD_FAILED = 3,  /* the file is not a program, or damaged */
    ET_INFERENCE_FAILED = 4,   /* an operator or backend failed during a run */
    ET_INVALID_STATE = 5,      /* not now: cancelled, timed out, queue full */
    ET_UNSUPPORTED = 6,        /* operators, backends or features that this build lacks */
    ET_IO_ERROR = 7,           /* a file cannot be opened or read */
    ET_INTERNAL = 99           /* a mistake of ours; please report it */
} ETErrorCode;

/* What a call has to say. */
typedef struct ETStatus {
    int32_t code;    /* an ETErrorCode */
    char *message;   /* a sentence that says what is wrong and what to do; NULL on success */
    char *location;  /* "file:line:function" of the library; NULL on success */
} ETStatus;

/* Element types. The numbers are this interface's own. */
typedef enum ETDType {
    ET_FLOAT32 = 0,
    ET_FLOAT64 = 1,
    ET_INT64 = 2,
    ET_INT32 = 3,
    ET_INT16 = 4,
    ET_INT8 = 5,
    ET_UINT8 = 6,
    ET_BOOL = 7,
    ET_UINT16 = 8,
    ET_UINT32 = 9,
    ET_UINT64 = 10,
    ET_FLOAT16 = 11,
    ET_BFLOAT16 = 12
} ETDType;

/* Backends that have a number. Those without one are found by name: et_backend_registered_name. */
typedef enum ETBackend {
    ET_BACKEND_XNNPACK = 0,
    ET_BACKEND_COREML = 1,
    ET_BACKEND_MPS = 2,  /* deprecated by Apple; see METAL */
    ET_BACKEND_VULKAN = 3,
    ET_BACKEND_QNN = 4,
    ET_BACKEND_METAL = 5,
    ET_BACKEND_GGML = 6,
    ET_BACKEND_MLX = 7
} ETBackend;

typedef struct ETModule ETModule;    /* a loaded program */
typedef struct ETTensor ETTensor;    /* elements with a shape */
typedef struct ETSession ETSession;  /* one caller's memory for running a method of a module */
typedef struct ETTask ETTask;        /* a call that was queued */

typedef void (*ETCallback_0)(void);
typedef void (*ETCallback_1)(void *status); /* the receiver frees the ETStatus */

/* ------------------------------------------------------------------------------------------------------------------
 * Part 1: the interface of executorch_native
 * ------------------------------------------------------------------------------------------------------------------ */

ET_API void et_status_free(ETStatus *status);

/* Makes a tensor with a copy of `data`. `shape` has `rank` sizes; rank 0 is a single number (`shape` may then be NULL),
 * and any size may be 0 (`data` may then be NULL). `data_size` must be what shape and dtype take. */
ET_API ETStatus *et_tensor_create(const void *data, size_t data_size, const int64_t *shape, int32_t rank, int32_t dtype,
                                  ETTensor **out_tensor);
ET_API int32_t et_tensor_dtype(const ETTensor *tensor);         /* an ETDType, -1 if it has no number; ET_FLOAT32 for NULL */
ET_API int32_t et_tensor_rank(const ETTensor *tensor);          /* 0 for NULL */
ET_API const int64_t *et_tensor_shape(const ETTensor *tensor);  /* borrowed; NULL for NULL */
ET_API const void *et_tensor_data(const ETTensor *tensor);      /* borrowed, row-major; NULL for NULL */
ET_API size_t et_tensor_data_size(const ETTensor *tensor);      /* in bytes; 0 for NULL */
ET_API void et_tensor_free(ETTensor *tensor);
/* Frees an array that a run returned, and the tensors in it. */
ET_API void et_tensor_array_free(ETTensor **tensors, int32_t count);

/* Loads a program from bytes, which are copied, or from a file, which is mapped into memory and must not change while the
 * module lives. Everything the method "forward" needs is checked now. */
ET_API ETStatus *et_module_load(const uint8_t *data, size_t data_size, ETModule **out_module);
ET_API ETStatus *et_module_load_file(const char *path, ETModule **out_module);
/* How many inputs and outputs "forward" has; 1 if there is no such method, 0 for NULL. */
ET_API int32_t et_module_input_count(const ETModule *module);
ET_API int32_t et_module_output_count(const ETModule *module);
/* Runs "forward". The outputs are new tensors in a new array: free both with et_tensor_array_free. An output that is a
 * number comes as a tensor of rank 0 (int64, float64 or bool); for other values there is et_module_run. */
ET_API ETStatus *et_module_forward(ETModule *module, ETTensor *const *inputs, int32_t input_count,
                                   ETTensor ***out_outputs, int32_t *out_output_count);
/* Waits for what runs in the module, cancels what is queued for it (those callbacks hear ET_INVALID_STATE before this
 * returns, on this thread), and frees it. From one of its own callbacks, or from an operator, backend or profiler that it
 * runs, it does not wait for that. */
ET_API void et_module_free(ETModule *module);

/* The same, elsewhere. What `out_...` point to and the input tensors must live until the callback was called, which
 * happens exactly once, on a thread of the library (or on that which frees the module), and never inside of this call
 * unless the system has no thread left. Bytes, path and the array of inputs are copied before the call returns. A NULL
 * callback is an error that nobody hears of: nothing is done then. */
ET_API void et_module_load_async(const uint8_t *data, size_t data_size, ETModule **out_module, ETCallback_1 callback);
ET_API void et_module_load_file_async(const char *path, ETModule **out_module, ETCallback_1 callback);
ET_API void et_module_forward_async(ETModule *module, ETTensor *const *inputs, int32_t input_count,
                                    ETTensor ***out_outputs, int32_t *out_output_count, ETCallback_1 callback);

/* Whether this build can run programs exported for a backend, 1 or 0. */
ET_API int32_t et_backend_available(int32_t backend);
/* Writes the numbers of at most `max` available backends; returns how many there are. `out` may be NULL. */
ET_API int32_t et_backend_list(int32_t *out, int32_t max);

ET_API const char *et_version(void);            /* of this library, "2.1.0"; never freed */
ET_API const char *et_executorch_version(void); /* of the ExecuTorch whose programs it runs, "1.5.1"; never freed */
ET_API void et_string_free(char *string);
/* Lines on stderr that start with "[ExecuTorch]", for each load, run and error; 1 or 0. */
ET_API void et_set_debug_enabled(int32_t enabled);

/* ------------------------------------------------------------------------------------------------------------------
 * Part 2: what goes further
 * ------------------------------------------------------------------------------------------------------------------ */

/* The version of this interface: the upper 16 bits change when something that was there changes, the lower ones when
 * something is added. Compare et_abi_version() >> 16 with ET_ABI_VERSION >> 16 after loading the library by hand. */
#define ET_ABI_VERSION 0x00020002u
ET_API uint32_t et_abi_version(void);

/* --- Values: tensors, numbers and the rest --- */

typedef enum ETValueKind {
    ET_VALUE_NONE = 0,
    ET_VALUE_TENSOR = 1,
    ET_VALUE_INT = 2,
    ET_VALUE_DOUBLE = 3,
    ET_VALUE_BOOL = 4,
    ET_VALUE_STRING = 5,
    ET_VALUE_LIST = 6 /* not in an ETValue */
} ETValueKind;

typedef struct ETValue {
    int32_t kind; /* an ETValueKind; says which of the members counts */
    union {
        ETTensor *tensor;
        int64_t integer;
        double number;
        int32_t boolean;
        const char *string;
    } as;
} ETValue;

/* Frees an array that a run returned, with its tensors and strings. */
ET_API void et_value_array_free(ETValue *values, int32_t count);

/* A tensor over memory of the caller, which is read (as an input) or written (as an output) where it is, and must outlive
 * the tensor. `data` must be aligned for its elements. */
ET_API ETStatus *et_tensor_borrow(void *data, size_t data_size, const int64_t *shape, int32_t rank, int32_t dtype,
                                  ETTensor **out_tensor);
/* The elements, to be changed between runs; NULL for NULL. */
ET_API void *et_tensor_mutable_data(ETTensor *tensor);

/* --- What is in a module --- */

typedef struct ETValueInfo {
    size_t size;
    int32_t kind;           /* an ETValueKind */
    int32_t dtype;          /* of a tensor: an ETDType; -1 for element types without a number */
    int32_t rank;           /* of a tensor */
    int32_t dynamic;        /* 1 if the sizes may differ from run to run */
    const int64_t *minimum; /* least sizes; borrowed from the module. Equal to `maximum` unless dynamic */
    const int64_t *maximum; /* largest sizes; borrowed from the module. -1 where nothing bounds them */
    const char *name;       /* of a tensor: what the export called it; borrowed from the module. NULL if the program does
                             * not record it: programs of this compiler do, other compilers leave it out as a rule */
} ETValueInfo;

ET_API int32_t et_module_method_count(const ETModule *module);
ET_API const char *et_module_method_name(const ETModule *module, int32_t index); /* borrowed; NULL if there is none */
ET_API ETStatus *et_module_method_counts(const ETModule *module, const char *method, int32_t *out_inputs,
                                         int32_t *out_outputs);
/* `out_info->size` must be set. */
ET_API ETStatus *et_module_input_info(const ETModule *module, const char *method, int32_t index, ETValueInfo *out_info);
ET_API ETStatus *et_module_output_info(const ETModule *module, const char *method, int32_t index, ETValueInfo *out_info);

/* --- Loading with options --- */

typedef enum ETEngine {
    ET_ENGINE_AUTO = 0,      /* what is fastest */
    ET_ENGINE_REFERENCE = 1  /* each operator by itself, to compare with */
} ETEngine;

typedef enum ETRounding {
    ET_ROUNDING_XNNPACK = 0, /* sums, products and means of bytes as the official runtime has them */
    ET_ROUNDING_PYTORCH = 1  /* as the quantised program in Python has them */
} ETRounding;

typedef struct ETLoadOptions {
    size_t size;
    int32_t threads;               /* of one run, the caller's included; 0: one per physical core; at most four times
                                    * as many as there are processors are used, or 16 */
    int32_t engine;                /* an ETEngine */
    int32_t exact;                 /* 1: no methods that round more than plain sums of products do */
    int32_t copy;                  /* 1: read files into memory instead of mapping them */
    uint64_t memory_limit;         /* most bytes of one session; 0: 8 GiB */
    uint64_t instruction_limit;    /* most instructions of one run; 0: ten million */
    const char *const *data_paths; /* external weights (.ptd) */
    int32_t data_path_count;
    int32_t rounding;              /* an ETRounding, of what was delegated to XNNPACK */
} ETLoadOptions;

ET_API void et_load_options_init(ETLoadOptions *options);
/* NULL options are the defaults. */
ET_API ETStatus *et_module_load_with(const uint8_t *data, size_t data_size, const ETLoadOptions *options,
                                     ETModule **out_module);
ET_API ETStatus *et_module_load_file_with(const char *path, const ETLoadOptions *options, ETModule **out_module);

/* One way to have a model. */
typedef struct ETCandidate {
    const char *path;
    const ETLoadOptions *options; /* NULL: the defaults */
} ETCandidate;

/* Loads the first candidate that loads. `out_index` (may be NULL) says which; `out_report` (may be NULL) has a line for
 * every candidate before it with the reason why it was passed over: free it with et_string_free. If none loads, the status
 * has all the reasons. */
ET_API ETStatus *et_module_load_best(const ETCandidate *candidates, int32_t count, ETModule **out_module,
                                     int32_t *out_index, char **out_report);

typedef struct ETMemoryEstimate {
    size_t size;
    uint64_t file_bytes;    /* the program with its weights; mapped, so not all of it need be in memory */
    uint64_t weight_bytes;  /* constants and payloads of delegates in it */
    uint64_t session_bytes; /* planned arenas and values of one session of the method */
} ETMemoryEstimate;

/* What a method ("forward" if NULL) of a file will take, without loading it. */
ET_API ETStatus *et_estimate_memory(const char *path, const char *method, ETMemoryEstimate *out_estimate);

/* Puts a program's weights into the order of this machine's kernels, so that first runs need not: into `output`, or, if that
 * is NULL, into MODEL.packed.ptd beside MODEL.pte, where loads of that file find it. To be done once on each device; the
 * options are those that loads will have. Runs every method once, on zeros. */
ET_API ETStatus *et_pack_weights(const char *path, const ETLoadOptions *options, const char *output);

/* --- Running --- */

/* Runs any method in the module's own session for it. The outputs are a new array: et_value_array_free. */
ET_API ETStatus *et_module_run(ETModule *module, const char *method, const ETValue *inputs, int32_t input_count,
                               ETValue **out_outputs, int32_t *out_output_count);
/* Runs a method whose outputs are tensors, and writes them into tensors of the caller, which take the sizes of the
 * results. A result that is of another dtype or does not fit a tensor's memory is an error, as are outputs that share
 * memory with an input or with each other. */
ET_API ETStatus *et_module_run_into(ETModule *module, const char *method, const ETValue *inputs, int32_t input_count,
                                    ETTensor *const *outputs, int32_t output_count);

/* A session of a method, which may outlive its module. */
ET_API ETStatus *et_session_create(ETModule *module, const char *method, ETSession **out_session);
ET_API ETStatus *et_session_run(ETSession *session, const ETValue *inputs, int32_t input_count, ETValue **out_outputs,
                                int32_t *out_output_count);
ET_API ETStatus *et_session_run_into(ETSession *session, const ETValue *inputs, int32_t input_count,
                                     ETTensor *const *outputs, int32_t output_count);
ET_API void et_session_free(ETSession *session);

/* --- Queued calls ---
 * A few threads of the library take calls from one queue: those of higher priority first, then in the order they came. */

typedef struct ETTaskOptions {
    size_t size;
    int32_t priority;    /* higher goes first; 0 is that of the async functions of part 1 */
    uint32_t timeout_ms; /* a call that has not started by then is dropped with ET_INVALID_STATE; 0: never */
} ETTaskOptions;

typedef void (*ETTaskCallback)(void *user_data, ETStatus *status); /* the receiver frees the status */

ET_API void et_task_options_init(ETTaskOptions *options);
/* How many threads take calls (0: as they are), and how many calls may wait (0: as it is) before further ones are refused
 * with ET_INVALID_STATE. At first: 2 threads and 1024 calls. */
ET_API ETStatus *et_async_configure(int32_t threads, int32_t queue_limit);
/* As et_module_run, queued. The tensors and strings among the inputs, and what `out_outputs` and `out_output_count` point
 * to, must live until the callback was called. `out_task` may be NULL; else free it with et_task_free, before or after the
 * call is done. If this returns an error, the callback is never called; else exactly once, and never after et_module_free
 * returned. */
ET_API ETStatus *et_module_run_async(ETModule *module, const char *method, const ETValue *inputs, int32_t input_count,
                                     ETValue **out_outputs, int32_t *out_output_count, const ETTaskOptions *options,
                                     ETTaskCallback callback, void *user_data, ETTask **out_task);
/* Drops a call that has not started: its callback hears ET_INVALID_STATE before this returns, on this thread. 1 if it was
 * dropped, 0 if it runs or is done. */
ET_API int32_t et_task_cancel(ETTask *task);
/* Waits until the callback has returned, at most `timeout_ms` (0: for ever; so not inside of it); 1 if it has. */
ET_API int32_t et_task_wait(const ETTask *task, uint32_t timeout_ms);
ET_API void et_task_free(ETTask *task); /* the call itself goes on */

/* --- Backends and operators --- */

ET_API const char *et_backend_name(int32_t backend); /* as programs name it, "XnnpackBackend"; static; NULL if unknown */
/* All registered backends, those of the application included. */
ET_API int32_t et_backend_registered_count(void);
ET_API const char *et_backend_registered_name(int32_t index); /* stays valid; NULL if there is none */

/* The arguments of one call of an operator or backend of the application; valid during that call only. Shapes and data
 * are borrowed for as long, and row-major. An argument that does not exist, or is of another kind, gives 0 or NULL. */
typedef struct ETCall ETCall;

ET_API int32_t et_call_argument_count(const ETCall *call);
ET_API int32_t et_call_argument_kind(const ETCall *call, int32_t index); /* an ETValueKind */
ET_API int32_t et_call_tensor_dtype(const ETCall *call, int32_t index);  /* an ETDType; -1 if it has no number */
ET_API int32_t et_call_tensor_rank(const ETCall *call, int32_t index);
ET_API const int64_t *et_call_tensor_shape(ETCall *call, int32_t index);
ET_API const void *et_call_tensor_data(ETCall *call, int32_t index, size_t *out_size);
ET_API int64_t et_call_int(const ETCall *call, int32_t index);   /* of an integer or bool */
ET_API double et_call_double(const ETCall *call, int32_t index); /* of any number */
ET_API const char *et_call_string(ETCall *call, int32_t index);
ET_API int32_t et_call_list_length(const ETCall *call, int32_t index);
ET_API int64_t et_call_int_in(const ETCall *call, int32_t index, int32_t position);
/* The memory of an output, which gets this shape; take the inputs first, and each output once. NULL if it has no room for
 * that shape. */
ET_API void *et_call_output(ETCall *call, int32_t index, const int64_t *shape, int32_t rank, size_t *out_size);
/* Says why the call fails; the function then returns an ETErrorCode other than ET_OK. */
ET_API void et_call_explain(ETCall *call, const char *sentence);

/* An operator of the application. Modules loaded from now on use it for "namespace::name.overload". `arguments` counts
 * those of the schema, outputs included, and the returned value that ends every call (32 at most); bit i of `writes` is set
 * if argument i is an output. The function may be called from several threads at once. It returns an ETErrorCode. */
typedef int32_t (*ETKernelFunction)(ETCall *call, void *user_data);
ET_API ETStatus *et_kernel_register(const char *name, int32_t arguments, uint32_t writes, ETKernelFunction run,
                                    void *user_data);

/* What a backend learns about a part of a program that was exported for it. */
typedef struct ETBackendPayload {
    size_t size;
    const char *method;
    const void *data; /* the payload; valid during init only, as is everything here */
    size_t data_size;
    int32_t spec_count; /* what the exporter told the backend, by key */
    const char *const *spec_keys;
    const void *const *spec_values;
    const size_t *spec_sizes;
    const void *(*named_data)(const void *context, const char *key, size_t *out_size); /* weights by name; NULL if none */
    const void *context;                                                               /* for named_data and explain */
    void (*explain)(const void *context, const char *sentence);                        /* why init will fail */
} ETBackendPayload;

/* A backend of the application. Functions may be called from several threads at once, but a delegate's `execute` for
 * one session is not. They return an ETErrorCode. */
typedef struct ETBackendDefinition {
    size_t size;
    const char *name;
    int32_t (*is_available)(void *user_data); /* may be NULL: always */
    /* Makes a delegate, and says how many of a call's last arguments are outputs. */
    int32_t (*init)(const ETBackendPayload *payload, void *user_data, void **out_delegate, int32_t *out_outputs);
    int32_t (*execute)(void *delegate, ETCall *call, void *user_data);
    void (*destroy)(void *delegate, void *user_data); /* may be NULL */
    void *user_data;                                  /* lives as long as the process */
} ETBackendDefinition;

/* Modules loaded from now on use it, also in place of one of the same name. */
ET_API ETStatus *et_backend_register(const ETBackendDefinition *definition);

/* --- Backends of this library in another runtime ---
 * For runtimes that read programs themselves, such as the official one: what was delegated to a backend of this library runs
 * on their tensors. GgmlBackend can be lent so, by a library that was built with it; crates/ffi/executorch registers it in
 * the official runtime. */

typedef struct ETDelegate ETDelegate;

typedef struct ETDelegateOptions {
    size_t size;
    int32_t threads;    /* of one run; 0: as many as the machine offers */
    const char *device; /* to compute on, as the backend calls it; NULL: it chooses */
} ETDelegateOptions;

/* The memory of an output of this shape, `bytes` long; NULL if there is none, which ends the run. It stays until the run
 * returns, apart from the inputs and the other outputs. */
typedef void *(*ETOutputFunction)(void *user_data, int32_t index, int32_t dtype, const int64_t *shape, int32_t rank,
                                  size_t bytes);

/* Makes a delegate of a payload that was exported for a backend ("GgmlBackend"). NULL options are the defaults. Of the
 * payload, `data` and `named_data` are asked (NULL: no data has a name); nothing of it is needed once this returned. */
ET_API ETStatus *et_delegate_create(const char *backend, const ETBackendPayload *payload, const ETDelegateOptions *options,
                                    ETDelegate **out_delegate);
ET_API int32_t et_delegate_input_count(const ETDelegate *delegate);
ET_API int32_t et_delegate_output_count(const ETDelegate *delegate);
/* Runs it on tensors, which are best borrowed (et_tensor_borrow); `output` is asked once for each output, in order. What the
 * payload keeps from run to run is the delegate's: runs from several threads wait for each other. */
ET_API ETStatus *et_delegate_run(ETDelegate *delegate, const ETTensor *const *inputs, int32_t input_count,
                                 ETOutputFunction output, void *user_data);
ET_API void et_delegate_free(ETDelegate *delegate);

/* --- Profiling --- */

typedef struct ETEvent {
    const char *name;        /* operator or backend, and how many more calls are planned with it; valid in the callback */
    uint32_t chain;          /* where the instruction is in the method */
    uint32_t instruction;
    uint64_t start_ns;       /* since some point in the past */
    uint64_t duration_ns;
} ETEvent;

typedef void (*ETProfiler)(void *user_data, const char *method, const ETEvent *event);
/* Hears of every instruction of every later run of the module and of sessions made later; NULL: of none. */
ET_API ETStatus *et_module_set_profiler(ETModule *module, ETProfiler profiler, void *user_data);

#ifdef __cplusplus
}
#endif

#endif
