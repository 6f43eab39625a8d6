/* Many threads: threads DIGITS.pte INPUT EXPECTED */
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, RUNS = 200 };

static const char *path, *expected;
static ETModule *shared;
static ETTensor *input;

static void run(ETModule *module) {
    for (int i = 0; i < RUNS; i++) {
        ETTensor **outputs = NULL;
        int32_t count = 0;
        OK(et_module_forward(module, &input, 1, &outputs, &count));
        if (i % 50 == 0) expect_floats(outputs[0], expected);
        et_tensor_array_free(outputs, count);
    }
}

/* All on one module. */
static void *on_one(void *unused) {
    (void)unused;
    run(shared);
    return NULL;
}

/* Each with a module of its own, loaded and freed there. */
static void *on_own(void *unused) {
    (void)unused;
    ETModule *module = NULL;
    OK(et_module_load_file(path, &module));
    run(module);
    et_module_free(module);
    return NULL;
}

/* Each with a session of the shared module, and the outputs in its own memory. */
static void *in_session(void *unused) {
    (void)unused;
    ETSession *session = NULL;
    OK(et_session_create(shared, "forward", &session));
    float scores[10];
    const int64_t shape[] = {1, 10};
    ETTensor *output = NULL;
    OK(et_tensor_borrow(scores, sizeof scores, shape, 2, ET_FLOAT32, &output));
    ETValue value = tensor_value(input);
    for (int i = 0; i < RUNS; i++) {
        memset(scores, 0, sizeof scores);
        OK(et_session_run_into(session, &value, 1, &output, 1));
        expect_floats(output, expected);
    }
    et_tensor_free(output);
    et_session_free(session);
    return NULL;
}

static void all(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, body, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    path = argv[1], expected = argv[3];
    const int64_t shape[] = {1, 1, 8, 8};
    input = read_tensor(argv[2], shape, 4, ET_FLOAT32);
    OK(et_module_load_file(path, &shared));
    all(on_one);
    all(on_own);
    all(in_session);
    et_module_free(shared);
    et_tensor_free(input);
    return 0;
}
