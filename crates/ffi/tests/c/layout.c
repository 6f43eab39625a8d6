/* Prints what the header says of structures and constants, one a line: the test compares it with the library's. */
#include <executorch_ffi.h>
#include <stdio.h>

#define SIZE(type) printf("size %s %zu\n", #type, sizeof(type))
#define AT(type, field) printf("at %s.%s %zu\n", #type, #field, offsetof(type, field))
#define IS(name) printf("is %s %lld\n", #name, (long long)(name))

int main(void) {
    SIZE(ETStatus), AT(ETStatus, code), AT(ETStatus, message), AT(ETStatus, location);
    SIZE(ETValue), AT(ETValue, kind), AT(ETValue, as);
    SIZE(ETValueInfo), AT(ETValueInfo, size), AT(ETValueInfo, kind), AT(ETValueInfo, dtype), AT(ETValueInfo, rank);
    AT(ETValueInfo, dynamic), AT(ETValueInfo, minimum), AT(ETValueInfo, maximum), AT(ETValueInfo, name);
    SIZE(ETLoadOptions), AT(ETLoadOptions, size), AT(ETLoadOptions, threads), AT(ETLoadOptions, engine);
    AT(ETLoadOptions, exact), AT(ETLoadOptions, copy), AT(ETLoadOptions, memory_limit);
    AT(ETLoadOptions, instruction_limit), AT(ETLoadOptions, data_paths), AT(ETLoadOptions, data_path_count);
    AT(ETLoadOptions, rounding);
    SIZE(ETCandidate), AT(ETCandidate, path), AT(ETCandidate, options);
    SIZE(ETMemoryEstimate), AT(ETMemoryEstimate, size), AT(ETMemoryEstimate, file_bytes);
    AT(ETMemoryEstimate, weight_bytes), AT(ETMemoryEstimate, session_bytes);
    SIZE(ETTaskOptions), AT(ETTaskOptions, size), AT(ETTaskOptions, priority), AT(ETTaskOptions, timeout_ms);
    SIZE(ETBackendPayload), AT(ETBackendPayload, size), AT(ETBackendPayload, method), AT(ETBackendPayload, data);
    AT(ETBackendPayload, data_size), AT(ETBackendPayload, spec_count), AT(ETBackendPayload, spec_keys);
    AT(ETBackendPayload, spec_values), AT(ETBackendPayload, spec_sizes), AT(ETBackendPayload, named_data);
    AT(ETBackendPayload, context), AT(ETBackendPayload, explain);
    SIZE(ETBackendDefinition), AT(ETBackendDefinition, size), AT(ETBackendDefinition, name);
    AT(ETBackendDefinition, is_available), AT(ETBackendDefinition, init), AT(ETBackendDefinition, execute);
    AT(ETBackendDefinition, destroy), AT(ETBackendDefinition, user_data);
    SIZE(ETDelegateOptions), AT(ETDelegateOptions, size), AT(ETDelegateOptions, threads), AT(ETDelegateOptions, device);
    SIZE(ETEvent), AT(ETEvent, name), AT(ETEvent, chain), AT(ETEvent, instruction), AT(ETEvent, start_ns);
    AT(ETEvent, duration_ns);
    IS(ET_OK), IS(ET_INVALID_ARGUMENT), IS(ET_OUT_OF_MEMORY), IS(ET_MODEL_LOAD_FAILED), IS(ET_INFERENCE_FAILED);
    IS(ET_INVALID_STATE), IS(ET_UNSUPPORTED), IS(ET_IO_ERROR), IS(ET_INTERNAL);
    IS(ET_VALUE_NONE), IS(ET_VALUE_TENSOR), IS(ET_VALUE_INT), IS(ET_VALUE_DOUBLE), IS(ET_VALUE_BOOL);
    IS(ET_VALUE_STRING), IS(ET_VALUE_LIST);
    IS(ET_ENGINE_AUTO), IS(ET_ENGINE_REFERENCE), IS(ET_ROUNDING_XNNPACK), IS(ET_ROUNDING_PYTORCH);
    IS(ET_ABI_VERSION);
    return 0;
}
