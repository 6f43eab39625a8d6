/*
 * Operators and backends of the application: custom SOFT_CLIP.pte SCALE.pte CHANNELS_LAST.pte
 *
 * The first program uses audio::soft_clip.out(Tensor x, float limit, *, Tensor(a!) out): soft_clip(4 x, 0.9) + 0.05. The
 * second delegates to ScaleBackend. The third has tensors whose channels lie innermost.
 */
#include "check.h"

static int mode = 0; /* how the operator fails */
static int operator_calls = 0;
static ETModule *clipper = NULL;

static int32_t soft_clip(ETCall *call, void *user_data) {
    CHECK(user_data == &operator_calls);
    operator_calls++;
    if (mode == 1) {
        et_call_explain(call, "the clipper is on fire");
        return ET_INFERENCE_FAILED;
    }
    if (mode == 3) { /* back into the module that runs it, which then goes with the run */
        ETTensor **outputs = NULL;
        ETSession *session = NULL;
        int32_t count = 0;
        FAILS(et_module_forward(clipper, NULL, 0, &outputs, &count), ET_INVALID_STATE, "running the function");
        FAILS(et_session_create(clipper, "forward", &session), ET_INVALID_STATE, "running the function");
        FAILS(et_module_set_profiler(clipper, NULL, NULL), ET_INVALID_STATE, "running the function");
        et_module_free(clipper);
    }
    CHECK(et_call_argument_count(call) == 4);
    CHECK(et_call_argument_kind(call, 0) == ET_VALUE_TENSOR && et_call_argument_kind(call, 1) == ET_VALUE_DOUBLE);
    CHECK(et_call_argument_kind(call, 2) == ET_VALUE_TENSOR && et_call_argument_kind(call, 17) == ET_VALUE_NONE);
    CHECK(et_call_tensor_dtype(call, 0) == ET_FLOAT32 && et_call_tensor_rank(call, 0) == 2);
    CHECK(et_call_tensor_rank(call, 1) == 0 && et_call_tensor_shape(call, 1) == NULL && et_call_int(call, 1) == 0);
    CHECK(et_call_string(call, 1) == NULL && et_call_list_length(call, 1) == 0 && et_call_int_in(call, 1, 0) == 0);
    CHECK(et_call_tensor_data(call, 1, NULL) == NULL && et_call_tensor_data(call, -1, NULL) == NULL);

    size_t size = 0, room = 0;
    const int64_t *shape = et_call_tensor_shape(call, 0);
    const float *x = et_call_tensor_data(call, 0, &size);
    CHECK(shape[0] == 2 && shape[1] == 32 && size == 64 * sizeof(float));
    CHECK(et_call_tensor_data(call, 0, NULL) == x && et_call_tensor_shape(call, 0) == shape);
    const float limit = (float)et_call_double(call, 1);
    if (mode == 2) { /* too large */
        const int64_t large[] = {200, 32};
        CHECK(et_call_output(call, 2, large, 2, &room) == NULL);
        return ET_OUT_OF_MEMORY;
    }
    CHECK(et_call_output(call, 0, shape, 2, NULL) == NULL); /* not an output */
    float *out = et_call_output(call, 2, shape, 2, &room);
    CHECK(out && room == size);
    CHECK(et_call_output(call, 2, shape, 2, NULL) == NULL); /* once */
    for (size_t i = 0; i < size / sizeof(float); i++) out[i] = limit * tanhf(x[i] / limit);
    return ET_OK;
}

static void custom_operator(const char *path) {
    ETModule *module = NULL;
    FAILS(et_module_load_file(path, &module), ET_UNSUPPORTED, "audio::soft_clip.out");
    OK(et_kernel_register("audio::soft_clip.out", 4, 1u << 2, soft_clip, &operator_calls));
    OK(et_module_load_file(path, &module));
    float signal[64];
    for (int i = 0; i < 64; i++) signal[i] = sinf((float)i / 5.0f);
    const int64_t shape[] = {2, 32};
    ETTensor *input = NULL, **outputs = NULL;
    int32_t count = 0;
    OK(et_tensor_create(signal, sizeof signal, shape, 2, ET_FLOAT32, &input));
    OK(et_module_forward(module, &input, 1, &outputs, &count));
    const float *clipped = et_tensor_data(outputs[0]);
    for (int i = 0; i < 64; i++) {
        CHECK(fabs(clipped[i] - (0.9 * tanh(4.0 * signal[i] / 0.9) + 0.05)) < 1e-6);
    }
    et_tensor_array_free(outputs, count);
    CHECK(operator_calls == 1);
    mode = 1;
    FAILS(et_module_forward(module, &input, 1, &outputs, &count), ET_INFERENCE_FAILED, "the clipper is on fire");
    mode = 2;
    FAILS(et_module_forward(module, &input, 1, &outputs, &count), ET_OUT_OF_MEMORY, "audio::soft_clip.out");
    mode = 3;
    clipper = module;
    OK(et_module_forward(module, &input, 1, &outputs, &count));
    et_tensor_array_free(outputs, count);
    et_tensor_free(input);
}

typedef struct Scale {
    float weights[4];
} Scale;

static int made = 0, destroyed = 0, executed = 0, available = 1, failing = 0;

static int32_t is_available(void *user_data) {
    CHECK(user_data == &made);
    return available;
}

static int32_t init(const ETBackendPayload *payload, void *user_data, void **out_delegate, int32_t *out_outputs) {
    CHECK(user_data == &made && payload->size >= sizeof *payload && strcmp(payload->method, "forward") == 0);
    CHECK(payload->data_size == 7 && memcmp(payload->data, "weights", 7) == 0);
    CHECK(payload->spec_count == 1 && strcmp(payload->spec_keys[0], "unit") == 0);
    CHECK(payload->spec_sizes[0] == 5 && memcmp(payload->spec_values[0], "metre", 5) == 0);
    size_t size = 0;
    CHECK(payload->named_data(payload->context, "absent", &size) == NULL);
    const void *weights = payload->named_data(payload->context, "weights", &size);
    CHECK(weights && size == sizeof(Scale));
    if (failing) {
        payload->explain(payload->context, "the scales are being cleaned");
        return ET_UNSUPPORTED;
    }
    Scale *scale = malloc(sizeof *scale);
    memcpy(scale, weights, sizeof *scale);
    *out_delegate = scale;
    *out_outputs = 1;
    made++;
    return ET_OK;
}

static int32_t execute(void *delegate, ETCall *call, void *user_data) {
    CHECK(user_data == &made && et_call_argument_count(call) == 2);
    executed++;
    const Scale *scale = delegate;
    const float *x = et_call_tensor_data(call, 0, NULL);
    float *y = et_call_output(call, 1, et_call_tensor_shape(call, 0), 1, NULL);
    CHECK(x && y);
    if (x[0] < 0) {
        et_call_explain(call, "nothing weighs less than nothing");
        return ET_INFERENCE_FAILED;
    }
    for (int i = 0; i < 4; i++) y[i] = x[i] * scale->weights[i];
    return ET_OK;
}

static void destroy(void *delegate, void *user_data) {
    CHECK(user_data == &made);
    free(delegate);
    destroyed++;
}

static void custom_backend(const char *path) {
    ETModule *module = NULL;
    int32_t before = et_backend_registered_count();
    const char *first = et_backend_registered_name(0);
    FAILS(et_module_load_file(path, &module), ET_UNSUPPORTED, "ScaleBackend");
    ETBackendDefinition definition = {sizeof definition, "ScaleBackend", is_available, init, execute, destroy, &made};
    OK(et_backend_register(&definition));
    CHECK(et_backend_registered_count() == before + 1 && et_backend_registered_name(0) == first);
    CHECK(strcmp(et_backend_registered_name(before), "ScaleBackend") == 0);

    available = 0;
    FAILS(et_module_load_file(path, &module), ET_UNSUPPORTED, "ScaleBackend cannot run on this machine");
    available = 1;
    failing = 1;
    FAILS(et_module_load_file(path, &module), ET_UNSUPPORTED, "the scales are being cleaned");
    failing = 0;
    OK(et_module_load_file(path, &module));
    CHECK(made == 1);
    ETValueInfo info = {.size = sizeof info};
    OK(et_module_input_info(module, "forward", 0, &info));
    CHECK(info.name && strcmp(info.name, "x") == 0);
    OK(et_module_output_info(module, "forward", 0, &info));
    CHECK(info.name && strcmp(info.name, "scaled") == 0);
    float ones[] = {1, 1, 1, 1};
    const int64_t shape[] = {4};
    ETTensor *input = NULL, **outputs = NULL;
    int32_t count = 0;
    OK(et_tensor_borrow(ones, sizeof ones, shape, 1, ET_FLOAT32, &input));
    for (int i = 0; i < 3; i++) {
        OK(et_module_forward(module, &input, 1, &outputs, &count));
        const float *weights = et_tensor_data(outputs[0]);
        for (int k = 0; k < 4; k++) CHECK(weights[k] == (float)(k + 1));
        et_tensor_array_free(outputs, count);
    }
    ones[0] = -1;
    FAILS(et_module_forward(module, &input, 1, &outputs, &count), ET_INFERENCE_FAILED, "nothing weighs less");
    CHECK(executed == 4 && destroyed == 0);
    et_module_free(module);
    CHECK(destroyed == 1);
    et_tensor_free(input);
}

static int copies = 0;

/* Stands in for a copy to another order of dimensions, or from integers: what it sees and writes is row-major all the same. */
static int32_t keep_order(ETCall *call, void *user_data) {
    (void)user_data;
    size_t size = 0, room = 0;
    const void *x = et_call_tensor_data(call, 0, &size);
    int32_t last = et_call_argument_count(call) - 2;
    void *out = et_call_output(call, last, et_call_tensor_shape(call, 0), et_call_tensor_rank(call, 0), &room);
    if (!x || !out) return ET_INVALID_ARGUMENT;
    if (et_call_tensor_dtype(call, 0) == ET_INT64 && et_call_tensor_dtype(call, last) == ET_FLOAT32) {
        for (size_t i = 0; i < size / 8; i++) ((float *)out)[i] = (float)((const int64_t *)x)[i];
    } else {
        CHECK(room == size);
        memcpy(out, x, size);
    }
    copies++;
    return ET_OK;
}

/* The program gives the same with a copy of ours as with the library's. */
static void other_orders(const char *path) {
    ETValue *results[2] = {NULL, NULL};
    int32_t counts[2] = {0, 0};
    for (int ours = 0; ours < 2; ours++) {
        if (ours) OK(et_kernel_register("dim_order_ops::_to_dim_order_copy.out", 5, 1u << 3, keep_order, NULL));
        ETModule *module = NULL;
        ETLoadOptions options = {.size = sizeof options, .engine = ET_ENGINE_REFERENCE};
        OK(et_module_load_file_with(path, &options, &module));
        ETValueInfo info = {.size = sizeof info};
        OK(et_module_input_info(module, "forward", 0, &info));
        size_t elements = 1;
        for (int32_t i = 0; i < info.rank; i++) elements *= (size_t)info.maximum[i];
        float *data = malloc(elements * sizeof *data);
        for (size_t i = 0; i < elements; i++) data[i] = (float)(i % 17) - 8.0f;
        ETTensor *input = NULL;
        OK(et_tensor_borrow(data, elements * sizeof *data, info.maximum, info.rank, ET_FLOAT32, &input));
        ETValue value = tensor_value(input);
        OK(et_module_run(module, "forward", &value, 1, &results[ours], &counts[ours]));
        et_tensor_free(input);
        free(data);
        et_module_free(module);
    }
    CHECK(copies > 0 && counts[0] == counts[1]);
    for (int32_t i = 0; i < counts[0]; i++) {
        const ETTensor *a = results[0][i].as.tensor, *b = results[1][i].as.tensor;
        CHECK(et_tensor_data_size(a) == et_tensor_data_size(b));
        CHECK(memcmp(et_tensor_data(a), et_tensor_data(b), et_tensor_data_size(a)) == 0);
    }
    et_value_array_free(results[0], counts[0]);
    et_value_array_free(results[1], counts[1]);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    custom_operator(argv[1]);
    custom_backend(argv[2]);
    other_orders(argv[3]);
    return 0;
}
