/*
 * Uses the library again and again, for those who watch the memory:
 *
 *     stress loops PROGRAM COUNT              loads, runs twice in every way, frees
 *     stress resident PROGRAM COUNT KILOBYTES runs, and compares resident memory after COUNT runs with that after 100
 *     stress broken PROGRAM COUNT             loads and runs damaged copies
 *
 * Inputs are zeros.
 */
#include "check.h"

enum { MOST = 8 };

/* The inputs of "forward", and an array of them as values. */
typedef struct Inputs {
    ETTensor *tensors[MOST];
    ETValue values[MOST];
    int32_t count;
} Inputs;

/* Says whether all inputs are tensors of a size that an application would make. */
static int make_inputs(const ETModule *module, Inputs *inputs) {
    static const size_t sizes[] = {4, 8, 8, 4, 2, 1, 1, 1, 2, 4, 8, 2, 2};
    int32_t outputs = 0, count = 0;
    inputs->count = 0;
    ETStatus *status = et_module_method_counts(module, "forward", &count, &outputs);
    int absent = status->code != ET_OK || count > MOST;
    et_status_free(status);
    if (absent) return 0;
    for (int32_t i = 0; i < count; i++) {
        ETValueInfo info = {.size = sizeof info};
        OK(et_module_input_info(module, "forward", i, &info));
        if (info.kind != ET_VALUE_TENSOR || info.dtype < 0) return 0;
        size_t bytes = sizes[info.dtype];
        for (int32_t k = 0; k < info.rank; k++) {
            if (info.maximum[k] > 1 << 20 || bytes > 1 << 24) return 0;
            bytes *= (size_t)info.maximum[k];
        }
        if (bytes > 1 << 24) return 0;
        void *zeros = calloc(bytes + 1, 1);
        OK(et_tensor_create(zeros, bytes, info.maximum, info.rank, info.dtype, &inputs->tensors[i]));
        free(zeros);
        inputs->values[i] = tensor_value(inputs->tensors[i]);
        inputs->count++;
    }
    return 1;
}

static void free_inputs(Inputs *inputs) {
    for (int32_t i = 0; i < inputs->count; i++) et_tensor_free(inputs->tensors[i]);
}

static void forward(ETModule *module, Inputs *inputs) {
    ETTensor **outputs = NULL;
    int32_t count = 0;
    OK(et_module_forward(module, inputs->tensors, inputs->count, &outputs, &count));
    et_tensor_array_free(outputs, count);
}

static void on_done(void *user_data, ETStatus *status) {
    *(int32_t *)user_data = status->code;
    et_status_free(status);
}

/* Every way to run, once. */
static void run_all_ways(ETModule *module, Inputs *inputs) {
    forward(module, inputs);
    ETValue *outputs = NULL;
    int32_t count = 0, code = -1;
    OK(et_module_run(module, "forward", inputs->values, inputs->count, &outputs, &count));
    ETTensor *targets[MOST];
    CHECK(count <= MOST);
    for (int32_t i = 0; i < count; i++) targets[i] = outputs[i].as.tensor;
    OK(et_module_run_into(module, "forward", inputs->values, inputs->count, targets, count));
    et_value_array_free(outputs, count);

    ETSession *session = NULL;
    OK(et_session_create(module, "forward", &session));
    OK(et_session_run(session, inputs->values, inputs->count, &outputs, &count));
    et_value_array_free(outputs, count);
    et_session_free(session);

    ETTask *task = NULL;
    OK(et_module_run_async(module, "forward", inputs->values, inputs->count, &outputs, &count, NULL, on_done, &code,
                           &task));
    CHECK(et_task_wait(task, 0) == 1 && code == ET_OK);
    et_task_free(task);
    et_value_array_free(outputs, count);
    FAILS(et_module_run(module, "backward", NULL, 0, &outputs, &count), ET_INVALID_ARGUMENT, "backward");
}

static void loops(const char *path, int times) {
    size_t size = 0;
    uint8_t *bytes = read_file(path, &size);
    for (int i = 0; i < times; i++) {
        ETModule *module = NULL;
        ETLoadOptions options = {.size = sizeof options, .threads = 1 + i % 2, .copy = i % 3 == 0};
        OK(i % 2 ? et_module_load_with(bytes, size, &options, &module)
                 : et_module_load_file_with(path, &options, &module));
        Inputs inputs;
        CHECK(make_inputs(module, &inputs));
        run_all_ways(module, &inputs);
        run_all_ways(module, &inputs);
        free_inputs(&inputs);
        et_module_free(module);
    }
    free(bytes);
}

/* Resident memory in KB. */
static long resident_now(void) {
    long pages = 0, all = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &all, &pages) == 2);
    fclose(file);
    return pages * 4;
}

static void resident(const char *path, int times, long most) {
    ETModule *module = NULL;
    OK(et_module_load_file(path, &module));
    Inputs inputs;
    CHECK(make_inputs(module, &inputs));
    long early = 0;
    for (int i = 0; i < times; i++) {
        if (i == 100) early = resident_now();
        run_all_ways(module, &inputs);
        forward(module, &inputs);
    }
    long late = resident_now();
    printf("resident after 100 runs: %ld KB, after %d: %ld KB\n", early, times, late);
    CHECK(labs(late - early) <= most);
    free_inputs(&inputs);
    et_module_free(module);
}

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static size_t below(size_t limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state % limit);
}

static void broken(const char *path, int times) {
    size_t size = 0;
    uint8_t *bytes = read_file(path, &size);
    int loaded = 0, ran = 0;
    for (int i = 0; i < times; i++) {
        size_t length = size;
        uint8_t *copy = malloc(size);
        memcpy(copy, bytes, size);
        for (size_t k = 0; k <= below(3); k++) {
            size_t at = below(size);
            switch (below(4)) {
                case 0: copy[at] = (uint8_t)below(256); break;
                case 1: length = at + 1; break;
                default: copy[at] ^= (uint8_t)(1u << below(8)); break;
            }
        }
        ETLoadOptions options = {
            .size = sizeof options, .threads = 1, .memory_limit = 32 << 20, .instruction_limit = 2000};
        ETModule *module = NULL;
        ETStatus *status = et_module_load_with(copy, length, &options, &module);
        free(copy);
        CHECK((status->code == ET_OK) == (module != NULL) && status->code != ET_INTERNAL);
        et_status_free(status);
        if (!module) continue;
        loaded++;
        Inputs inputs;
        int fits = make_inputs(module, &inputs);
        for (int k = 0; fits && k < 2; k++) {
            ETValue *outputs = NULL;
            int32_t count = 0;
            status = et_module_run(module, "forward", inputs.values, inputs.count, &outputs, &count);
            CHECK(status->code != ET_INTERNAL);
            ran += status->code == ET_OK;
            et_status_free(status);
            et_value_array_free(outputs, count);
        }
        free_inputs(&inputs);
        et_module_free(module);
    }
    printf("%d damaged programs: %d loaded, %d runs went well\n", times, loaded, ran);
    CHECK(loaded > 0 && loaded < times);
    free(bytes);
}

int main(int argc, char **argv) {
    CHECK(argc >= 4);
    int times = atoi(argv[3]);
    if (strcmp(argv[1], "loops") == 0) loops(argv[2], times);
    else if (strcmp(argv[1], "resident") == 0) resident(argv[2], times, atol(argv[4]));
    else if (strcmp(argv[1], "broken") == 0) broken(argv[2], times);
    else CHECK(!"loops, resident or broken");
    return 0;
}
