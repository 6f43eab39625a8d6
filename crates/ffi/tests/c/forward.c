/* Part 1 of the header, as a user of executorch_native writes it: forward DIGITS.pte INPUT EXPECTED */
#include "check.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int heard = 0;
static int32_t heard_code = -1;

static void on_done(void *pointer) {
    ETStatus *status = pointer;
    pthread_mutex_lock(&lock);
    heard_code = status->code;
    heard++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    et_status_free(status);
}

/* Waits for the callback of one call, and gives its code. */
static int32_t wait_for_callback(void) {
    pthread_mutex_lock(&lock);
    while (heard == 0) pthread_cond_wait(&changed, &lock);
    heard--;
    int32_t code = heard_code;
    pthread_mutex_unlock(&lock);
    return code;
}

static void run(ETModule *module, ETTensor *input, const char *expected) {
    ETTensor **outputs = NULL;
    int32_t count = 0;
    ETStatus *status = et_module_forward(module, &input, 1, &outputs, &count);
    CHECK(status->code == ET_OK);
    et_status_free(status);
    CHECK(count == 1 && et_tensor_rank(outputs[0]) == 2);
    CHECK(et_tensor_shape(outputs[0])[0] == 1 && et_tensor_shape(outputs[0])[1] == 10);
    expect_floats(outputs[0], expected);
    et_tensor_array_free(outputs, count);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    const char *path = argv[1], *expected = argv[3];
    size_t size = 0;
    uint8_t *bytes = read_file(path, &size);
    const int64_t shape[] = {1, 1, 8, 8};
    ETTensor *input = read_tensor(argv[2], shape, 4, ET_FLOAT32);
    CHECK(et_tensor_dtype(input) == ET_FLOAT32 && et_tensor_rank(input) == 4 && et_tensor_shape(input)[3] == 8);

    ETModule *from_file = NULL, *from_bytes = NULL, *later = NULL, *later_still = NULL;
    OK(et_module_load_file(path, &from_file));
    OK(et_module_load(bytes, size, &from_bytes));
    et_module_load_file_async(path, &later, on_done);
    CHECK(wait_for_callback() == ET_OK);
    et_module_load_async(bytes, size, &later_still, on_done);
    memset(bytes, 0, size); /* they were copied */
    CHECK(wait_for_callback() == ET_OK);
    free(bytes);

    CHECK(et_module_input_count(from_file) == 1 && et_module_output_count(from_file) == 1);
    for (int i = 0; i < 3; i++) run(from_file, input, expected);
    run(from_bytes, input, expected);
    run(later, input, expected);
    run(later_still, input, expected);

    ETTensor **outputs = NULL;
    int32_t count = 0;
    et_module_forward_async(from_file, &input, 1, &outputs, &count, on_done);
    CHECK(wait_for_callback() == ET_OK && count == 1);
    expect_floats(outputs[0], expected);
    et_tensor_array_free(outputs, count);

    /* What goes wrong is told, also elsewhere. */
    outputs = NULL;
    count = -1;
    ETTensor *two[] = {input, input};
    FAILS(et_module_forward(from_file, two, 2, &outputs, &count), ET_INVALID_ARGUMENT, "2 were given");
    FAILS(et_module_forward(from_file, NULL, 0, &outputs, &count), ET_INVALID_ARGUMENT, "takes 1 input(s), 0 were given");
    CHECK(outputs == NULL && count == -1);
    et_module_forward_async(from_file, NULL, 0, &outputs, &count, on_done);
    CHECK(wait_for_callback() == ET_INVALID_ARGUMENT && outputs == NULL && count == -1);
    et_module_forward_async(NULL, &input, 1, &outputs, &count, on_done);
    CHECK(wait_for_callback() == ET_INVALID_ARGUMENT);
    ETModule *none = NULL;
    et_module_load_file_async("no/such/file.pte", &none, on_done);
    CHECK(wait_for_callback() == ET_IO_ERROR && none == NULL);
    FAILS(et_module_load_file("no/such/file.pte", &none), ET_IO_ERROR, "no/such/file.pte");
    FAILS(et_module_load((const uint8_t *)"nonsense", 8, &none), ET_MODEL_LOAD_FAILED, NULL);
    et_module_load_file_async(path, &none, NULL);

    CHECK(et_backend_available(ET_BACKEND_XNNPACK) == 1 && et_backend_available(ET_BACKEND_QNN) == 0);
    int32_t backends[8];
    CHECK(et_backend_list(backends, 8) == 1 && backends[0] == ET_BACKEND_XNNPACK && et_backend_list(NULL, 0) == 1);
    CHECK(strchr(et_version(), '.') && strchr(et_executorch_version(), '.'));
    et_set_debug_enabled(1);
    run(from_file, input, expected);
    et_set_debug_enabled(0);

    et_tensor_free(input);
    et_module_free(from_file);
    et_module_free(from_bytes);
    et_module_free(later);
    et_module_free(later_still);
    et_module_free(NULL);
    et_tensor_free(NULL);
    et_tensor_array_free(NULL, 3);
    et_status_free(NULL);
    et_string_free(NULL);
    return 0;
}
