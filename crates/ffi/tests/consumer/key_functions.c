/*
 * The key functions with the declarations that programs for executorch_native have, and without our header: whoever was
 * built against those links and runs with this library.
 */
#include <stddef.h>
#include <stdint.h>

typedef struct ETStatus ETStatus;
typedef struct ETModule ETModule;
typedef struct ETTensor ETTensor;

#if defined(_WIN32) && !defined(EXECUTORCH_FFI_STATIC)
#  define ET_API __declspec(dllimport)
#else
#  define ET_API
#endif

ET_API ETStatus* et_module_load(const uint8_t* data, size_t data_size, ETModule** out);
ET_API ETStatus* et_module_load_file(const char* path, ETModule** out);
ET_API ETStatus* et_module_forward(ETModule* module, ETTensor** inputs, int32_t input_count,
                                   ETTensor*** outputs, int32_t* output_count);
ET_API void et_module_free(ETModule* module);
ET_API void et_tensor_free(ETTensor* tensor);
ET_API void et_status_free(ETStatus* status);

ETStatus *load_from_memory(const uint8_t *data, size_t data_size, ETModule **out) {
    return et_module_load(data, data_size, out);
}

ETStatus *load_from_file(const char *path, ETModule **out) {
    return et_module_load_file(path, out);
}

ETStatus *run(ETModule *module, ETTensor **inputs, int32_t input_count, ETTensor ***outputs, int32_t *output_count) {
    return et_module_forward(module, inputs, input_count, outputs, output_count);
}

/* Each accepts NULL. */
void free_everything(ETModule *module, ETTensor *tensor, ETStatus *status) {
    et_module_free(module);
    et_tensor_free(tensor);
    et_status_free(status);
}
