/*
 * Part 2 of the header: other methods, external weights, sessions, memory of the caller, the best of several files.
 * further GOLDEN RAW DIGITS.pte, where GOLDEN has the programs and RAW the raw numbers, by their names.
 */
#include "check.h"

static const char *golden, *raw, *digits;

static const char *in(const char *directory, const char *name) {
    static char paths[8][1024];
    static int next = 0;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static ETModule *load(const char *path) {
    ETModule *module = NULL;
    OK(et_module_load_file(path, &module));
    return module;
}

/* Runs a method with one input, and compares the only output. */
static void run(ETModule *module, const char *method, ETTensor *input, const char *expected) {
    ETValue value = tensor_value(input), *outputs = NULL;
    int32_t count = 0;
    OK(et_module_run(module, method, &value, 1, &outputs, &count));
    CHECK(count == 1 && outputs[0].kind == ET_VALUE_TENSOR);
    expect_floats(outputs[0].as.tensor, expected);
    et_value_array_free(outputs, count);
}

static void methods(void) {
    ETModule *module = load(in(golden, "methods.pte"));
    CHECK(et_module_method_count(module) > 2);
    int found = 0;
    for (int32_t i = 0; i < et_module_method_count(module); i++) {
        const char *name = et_module_method_name(module, i);
        found += strcmp(name, "encode") == 0 || strcmp(name, "decode") == 0;
    }
    CHECK(found == 2);
    int32_t inputs = 0, outputs = 0;
    OK(et_module_method_counts(module, "decode", &inputs, &outputs));
    CHECK(inputs == 1 && outputs == 1);
    ETValueInfo info = {.size = sizeof info};
    OK(et_module_input_info(module, "encode", 0, &info));
    CHECK(info.kind == ET_VALUE_TENSOR && info.dtype == ET_INT64 && info.rank == 2 && !info.dynamic && !info.name);
    CHECK(info.maximum[0] == 2 && info.maximum[1] == 3 && info.minimum[1] == 3);
    OK(et_module_output_info(module, "decode", 0, &info));
    CHECK(info.dtype == ET_FLOAT32 && info.maximum[1] == 10);

    const int64_t tokens[] = {2, 3}, states[] = {2, 6};
    ETTensor *encode = read_tensor(in(raw, "encode.in0"), tokens, 2, ET_INT64);
    ETTensor *decode = read_tensor(in(raw, "decode.in0"), states, 2, ET_FLOAT32);
    for (int i = 0; i < 2; i++) {
        run(module, "encode", encode, in(raw, "encode.out0"));
        run(module, "decode", decode, in(raw, "decode.out0"));
    }
    et_tensor_free(encode);
    et_tensor_free(decode);

    /* Methods without inputs whose outputs are recorded values. */
    ETValue *values = NULL;
    int32_t count = 0;
    OK(et_module_run(module, "get_vocab_size", NULL, 0, &values, &count));
    CHECK(count == 1 && values[0].kind == ET_VALUE_INT && values[0].as.integer == 10);
    et_value_array_free(values, count);
    OK(et_module_run(module, "get_scale", NULL, 0, &values, &count));
    CHECK(count == 1 && values[0].kind == ET_VALUE_DOUBLE && values[0].as.number == 0.25);
    et_value_array_free(values, count);
    OK(et_module_run(module, "use_cache", NULL, 0, &values, &count));
    CHECK(count == 1 && values[0].kind == ET_VALUE_BOOL && values[0].as.boolean == 1);
    et_value_array_free(values, count);
    OK(et_module_run(module, "get_name", NULL, 0, &values, &count));
    CHECK(count == 1 && values[0].kind == ET_VALUE_STRING && strcmp(values[0].as.string, "sconce") == 0);
    et_value_array_free(values, count);
    et_module_free(module);
}

static void external_weights(void) {
    ETModule *module = NULL;
    const char *program = in(golden, "external_constants.pte"), *data = in(golden, "external_constants.ptd");
    FAILS(et_module_load_file(program, &module), ET_MODEL_LOAD_FAILED, ".ptd");
    ETLoadOptions options;
    et_load_options_init(&options);
    options.data_paths = &data;
    options.data_path_count = 1;
    options.threads = 1;
    options.copy = 1;
    OK(et_module_load_file_with(program, &options, &module));
    const int64_t shape[] = {2, 16};
    ETTensor *input = read_tensor(in(raw, "external.in0"), shape, 2, ET_FLOAT32);
    run(module, "forward", input, in(raw, "external.out0"));
    et_module_free(module);

    /* The same from bytes, and operator by operator. */
    size_t size = 0;
    uint8_t *bytes = read_file(program, &size);
    options.engine = ET_ENGINE_REFERENCE;
    OK(et_module_load_with(bytes, size, &options, &module));
    free(bytes);
    run(module, "forward", input, in(raw, "external.out0"));
    et_module_free(module);

    const char *twice[] = {data, data};
    options.data_paths = twice;
    options.data_path_count = 2;
    FAILS(et_module_load_file_with(program, &options, &module), ET_INVALID_ARGUMENT, "already has an entry");
    et_tensor_free(input);
}

/* A batch of 1 to 8, into memory that is ours and has room for 8. */
static void memory_of_the_caller(void) {
    ETModule *module = load(in(golden, "dynamic_batch.pte"));
    ETValueInfo info = {.size = sizeof info};
    OK(et_module_input_info(module, "forward", 0, &info));
    CHECK(info.dynamic && info.maximum[0] == 8 && info.maximum[1] == 16 && info.minimum[0] == 0);

    size_t size = 0;
    float *given = (float *)read_file(in(raw, "batch.in0"), &size), results[8 * 8];
    const int64_t in_shape[] = {3, 16}, out_shape[] = {8, 8};
    ETTensor *input = NULL, *output = NULL;
    OK(et_tensor_borrow(given, size, in_shape, 2, ET_FLOAT32, &input));
    OK(et_tensor_borrow(results, sizeof results, out_shape, 2, ET_FLOAT32, &output));
    ETValue value = tensor_value(input);
    ETSession *session = NULL;
    OK(et_session_create(module, "forward", &session));
    OK(et_module_run_into(module, "forward", &value, 1, &output, 1));
    CHECK(et_tensor_data(output) == results && et_tensor_shape(output)[0] == 3 && et_tensor_shape(output)[1] == 8);
    expect_floats(output, in(raw, "batch.out0"));
    et_module_free(module); /* the session goes on */
    memset(results, 0, sizeof results);
    OK(et_session_run_into(session, &value, 1, &output, 1));
    expect_floats(output, in(raw, "batch.out0"));

    ETValue *outputs = NULL;
    int32_t count = 0;
    OK(et_session_run(session, &value, 1, &outputs, &count));
    expect_floats(outputs[0].as.tensor, in(raw, "batch.out0"));
    et_value_array_free(outputs, count);
    et_session_free(session);
    et_tensor_free(input);
    et_tensor_free(output);
    free(given);
}

static void best_of_several(void) {
    ETLoadOptions small = {.size = sizeof small};
    small.memory_limit = 1;
    const ETCandidate candidates[] = {{"no/such.pte", NULL}, {digits, &small}, {digits, NULL}, {"never/tried", NULL}};
    ETModule *module = NULL;
    int32_t index = -1;
    char *report = NULL;
    OK(et_module_load_best(candidates, 4, &module, &index, &report));
    CHECK(index == 2 && strstr(report, "no/such.pte: cannot read") && strstr(report, "memory_limit"));
    CHECK(!strstr(report, "never/tried"));
    et_string_free(report);
    et_module_free(module);
    OK(et_module_load_best(candidates + 2, 1, &module, NULL, NULL));
    et_module_free(module);
    OK(et_module_load_best(candidates + 2, 1, &module, NULL, &report));
    CHECK(strcmp(report, "") == 0);
    et_string_free(report);
    et_module_free(module);
    FAILS(et_module_load_best(candidates, 2, &module, &index, &report), ET_MODEL_LOAD_FAILED, "no/such.pte");

    ETMemoryEstimate estimate = {.size = sizeof estimate};
    size_t size = 0;
    free(read_file(digits, &size));
    OK(et_pack_weights(digits, NULL, in(raw, "digits.packed.ptd")));
    OK(et_estimate_memory(digits, NULL, &estimate));
    CHECK(estimate.file_bytes == size && estimate.weight_bytes > size / 2 && estimate.weight_bytes < size);
    CHECK(estimate.session_bytes > 64 * sizeof(float) && estimate.session_bytes < 1 << 20);
}

/* Outputs of all kinds. */
static void outputs_that_are_no_tensors(void) {
    ETModule *module = load(in(golden, "scalar_outputs.pte"));
    float ones[] = {1, 1, 1, 1};
    const int64_t shape[] = {2, 2};
    ETTensor *input = NULL, **tensors = NULL;
    OK(et_tensor_create(ones, sizeof ones, shape, 2, ET_FLOAT32, &input));
    ETValue value = tensor_value(input), *values = NULL;
    int32_t count = 0;
    OK(et_module_run(module, "forward", &value, 1, &values, &count));
    CHECK(count == 7 && values[0].kind == ET_VALUE_INT && values[0].as.integer == 2);
    CHECK(values[1].kind == ET_VALUE_TENSOR && values[4].kind == ET_VALUE_DOUBLE && values[4].as.number == 2.5);
    CHECK(values[5].kind == ET_VALUE_BOOL && values[5].as.boolean == 1 && values[6].kind == ET_VALUE_NONE);
    et_value_array_free(values, count);
    FAILS(et_module_forward(module, &input, 1, &tensors, &count), ET_UNSUPPORTED, "et_module_run");
    et_module_free(module);

    module = load(in(golden, "methods.pte"));
    FAILS(et_module_run_into(module, "get_vocab_size", NULL, 0, &input, 1), ET_INVALID_ARGUMENT, "no tensor");
    et_tensor_free(input);
    et_module_free(module);
}

static int events = 0;
static uint64_t last_start = 0;

static void on_event(void *user_data, const char *method, const ETEvent *event) {
    CHECK(user_data == &events && strcmp(method, "forward") == 0);
    CHECK(strstr(event->name, "::") && event->start_ns >= last_start && event->duration_ns < 60000000000u);
    last_start = event->start_ns;
    events++;
}

static void profiling(void) {
    ETLoadOptions options = {.size = sizeof options};
    options.engine = ET_ENGINE_REFERENCE;
    ETModule *module = NULL;
    OK(et_module_load_file_with(digits, &options, &module));
    float pixels[64] = {0};
    const int64_t shape[] = {1, 1, 8, 8};
    ETTensor *image = NULL;
    OK(et_tensor_create(pixels, sizeof pixels, shape, 4, ET_FLOAT32, &image));
    ETTensor **outputs = NULL;
    int32_t count = 0;
    OK(et_module_set_profiler(module, on_event, &events));
    OK(et_module_forward(module, &image, 1, &outputs, &count));
    et_tensor_array_free(outputs, count);
    int first = events;
    CHECK(first > 2);
    ETSession *session = NULL;
    OK(et_session_create(module, "forward", &session));
    OK(et_module_set_profiler(module, NULL, NULL));
    OK(et_module_forward(module, &image, 1, &outputs, &count));
    et_tensor_array_free(outputs, count);
    CHECK(events == first);
    ETValue value = tensor_value(image), *values = NULL;
    OK(et_session_run(session, &value, 1, &values, &count));
    et_value_array_free(values, count);
    CHECK(events == 2 * first);
    et_session_free(session);
    et_tensor_free(image);
    et_module_free(module);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    golden = argv[1], raw = argv[2], digits = argv[3];
    CHECK(et_abi_version() >> 16 == ET_ABI_VERSION >> 16);
    methods();
    external_weights();
    memory_of_the_caller();
    best_of_several();
    outputs_that_are_no_tensors();
    profiling();
    return 0;
}
