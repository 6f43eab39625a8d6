/* Queued calls: storm DIGITS.pte INPUT EXPECTED ROUNDS, where EXPECTED may be - for anything */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { CALLS = 100 };

static const char *path, *expected;
static ETTensor *input;

static ETModule *load(void) {
    ETModule *module = NULL;
    ETLoadOptions options = {.size = sizeof options, .threads = 1};
    OK(et_module_load_file_with(path, &options, &module));
    return module;
}

/* One queued call. */
typedef struct Call {
    ETValue value, *outputs;
    int32_t count;
    atomic_int heard;
    int32_t code;
    int order; /* the place of its callback among all */
    ETTask *task;
} Call;

static atomic_int callbacks, freed;

static void on_done(void *user_data, ETStatus *status) {
    Call *call = user_data;
    CHECK(!atomic_load(&freed));
    call->code = status->code;
    CHECK((call->outputs != NULL) == (status->code == ET_OK));
    call->order = atomic_fetch_add(&callbacks, 1);
    CHECK(atomic_fetch_add(&call->heard, 1) == 0);
    et_status_free(status);
}

static void queue(ETModule *module, Call *call, int32_t priority, uint32_t timeout_ms) {
    memset(call, 0, sizeof *call);
    call->value = tensor_value(input);
    ETTaskOptions options;
    et_task_options_init(&options);
    options.priority = priority;
    options.timeout_ms = timeout_ms;
    OK(et_module_run_async(module, "forward", &call->value, 1, &call->outputs, &call->count, &options, on_done, call,
                           &call->task));
}

static void finish(Call *call) {
    CHECK(et_task_wait(call->task, 60000) == 1 && atomic_load(&call->heard) == 1);
    et_task_free(call->task);
    et_value_array_free(call->outputs, call->count);
}

/* A hundred calls, and the module is freed while they wait. */
static void free_while_queued(int rounds) {
    Call calls[CALLS];
    int ran = 0, turned_away = 0;
    for (int round = 0; round < rounds; round++) {
        ETModule *module = load();
        atomic_store(&freed, 0);
        for (int i = 0; i < CALLS; i++) queue(module, &calls[i], 0, 0);
        /* Let some of them run, more in each round. */
        if (round % 3) CHECK(et_task_wait(calls[round % CALLS].task, 0) == 1);
        et_module_free(module);
        atomic_store(&freed, 1);
        for (int i = 0; i < CALLS; i++) {
            CHECK(atomic_load(&calls[i].heard) == 1 && (calls[i].code == ET_OK || calls[i].code == ET_INVALID_STATE));
            ran += calls[i].code == ET_OK;
            turned_away += calls[i].code == ET_INVALID_STATE;
            if (calls[i].code == ET_OK && strcmp(expected, "-")) expect_floats(calls[i].outputs[0].as.tensor, expected);
            CHECK(et_task_cancel(calls[i].task) == 0);
            finish(&calls[i]);
        }
    }
    CHECK(ran + turned_away == rounds * CALLS && turned_away > 0 && ran > 0);
    atomic_store(&freed, 0);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_int inside;

/* A callback that keeps its worker busy until the gate opens. */
static void on_blocked(void *user_data, ETStatus *status) {
    atomic_store(&inside, 1);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    on_done(user_data, status);
}

/* Stops the only worker in a callback; returns when it is there. */
static void block(ETModule *module, Call *call) {
    memset(call, 0, sizeof *call);
    call->value = tensor_value(input);
    atomic_store(&inside, 0);
    pthread_mutex_lock(&gate);
    OK(et_module_run_async(module, "forward", &call->value, 1, &call->outputs, &call->count, NULL, on_blocked, call,
                           &call->task));
    while (!atomic_load(&inside)) nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* Priorities, cancelling, timeouts and the limit, with one worker that waits at the gate. */
static void one_worker(void) {
    OK(et_async_configure(1, 8));
    ETModule *module = load();
    /* The second worker leaves when it is idle; what runs first may still be on it. */
    Call first, late, calls[8];
    queue(module, &first, 0, 0);
    finish(&first);
    block(module, &first);
    for (int i = 0; i < 8; i++) queue(module, &calls[i], i % 4 == 3 ? 5 : i % 4 == 2 ? -5 : 0, 0);

    ETValue *outputs = NULL;
    int32_t count = 0;
    ETTask *task = NULL;
    FAILS(et_module_run_async(module, "forward", &first.value, 1, &outputs, &count, NULL, on_done, &first, &task),
          ET_INVALID_STATE, "8 calls");
    CHECK(task == NULL);
    /* A call can be cancelled, once; that makes room for another. */
    CHECK(et_task_cancel(calls[4].task) == 1 && calls[4].code == ET_INVALID_STATE && atomic_load(&calls[4].heard) == 1);
    CHECK(et_task_cancel(calls[4].task) == 0);
    /* It times out although the worker is busy. */
    queue(module, &late, 0, 20);
    CHECK(et_task_wait(late.task, 60000) == 1 && late.code == ET_INVALID_STATE);
    CHECK(et_task_wait(calls[0].task, 1) == 0);
    pthread_mutex_unlock(&gate);
    finish(&first);
    finish(&late);
    for (int i = 0; i < 8; i++) {
        finish(&calls[i]);
        CHECK(calls[i].code == (i == 4 ? ET_INVALID_STATE : ET_OK));
    }
    /* High ones first, then as they came: 3 7, 0 1 5, 2 6. */
    const int order[] = {3, 7, 0, 1, 5, 2, 6};
    for (int i = 1; i < 7; i++) CHECK(calls[order[i - 1]].order < calls[order[i]].order);
    et_module_free(module);
    OK(et_async_configure(2, 1024));
}

/* A module that is busy does not keep others from their turn. */
static void two_modules(void) {
    ETModule *busy = load(), *other = load();
    Call blocked, waiting[4], quick;
    block(busy, &blocked);
    for (int i = 0; i < 4; i++) queue(busy, &waiting[i], 1, 0);
    queue(other, &quick, 0, 0);
    CHECK(et_task_wait(quick.task, 60000) == 1 && quick.code == ET_OK);
    for (int i = 0; i < 4; i++) CHECK(et_task_wait(waiting[i].task, 1) == 0);
    pthread_mutex_unlock(&gate);
    finish(&blocked);
    finish(&quick);
    for (int i = 0; i < 4; i++) finish(&waiting[i]);
    et_module_free(busy);
    et_module_free(other);
}

/* Freeing a module in one of its callbacks. */
static ETModule *own;
static void on_last(void *user_data, ETStatus *status) {
    et_module_free(own);
    on_done(user_data, status);
}

static void free_in_a_callback(void) {
    own = load();
    Call last;
    memset(&last, 0, sizeof last);
    last.value = tensor_value(input);
    OK(et_module_run_async(own, "forward", &last.value, 1, &last.outputs, &last.count, NULL, on_last, &last, &last.task));
    finish(&last);
    CHECK(last.code == ET_OK);
}

static atomic_int plain;
static void on_plain(void *status) {
    int32_t code = ((ETStatus *)status)->code;
    CHECK(code == ET_OK || code == ET_INVALID_STATE);
    et_status_free(status);
    atomic_fetch_add(&plain, 1);
}

/* The functions of part 1 are refused, not lost, when the queue is full. */
static void plain_storm(void) {
    OK(et_async_configure(2, 16));
    ETModule *module = load();
    static ETTensor **outputs[CALLS];
    static int32_t counts[CALLS];
    for (int i = 0; i < CALLS; i++) et_module_forward_async(module, &input, 1, &outputs[i], &counts[i], on_plain);
    et_module_free(module);
    CHECK(atomic_load(&plain) == CALLS);
    for (int i = 0; i < CALLS; i++) et_tensor_array_free(outputs[i], counts[i]);
    OK(et_async_configure(2, 1024));
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    path = argv[1], expected = argv[3];
    const int64_t shape[] = {1, 1, 8, 8};
    input = read_tensor(argv[2], shape, 4, ET_FLOAT32);
    free_while_queued(atoi(argv[4]));
    one_worker();
    two_modules();
    free_in_a_callback();
    plain_storm();
    et_tensor_free(input);
    return 0;
}
