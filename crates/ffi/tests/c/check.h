/* What the test programs share: checks that end the program with the line that failed, and files as bytes. */
#ifndef CHECK_H
#define CHECK_H

#include <executorch_ffi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

/* The call went well. */
#define OK(call) expect((call), ET_OK, NULL, __LINE__)
/* The call fails with this code, and its sentence has these words. */
#define FAILS(call, code, words) expect((call), (code), (words), __LINE__)

static inline void expect(ETStatus *status, int32_t code, const char *words, int line) {
    if (!status || status->code != code || (words && !strstr(status->message, words))) {
        fprintf(stderr, "line %d: code %d instead of %d: %s\n", line, status ? status->code : -1, code,
                status && status->message ? status->message : "no message");
        exit(1);
    }
    CHECK((code == ET_OK) == (status->message == NULL) && (code == ET_OK) == (status->location == NULL));
    et_status_free(status);
}

static inline uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    CHECK(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size + 1);
    CHECK(bytes && fread(bytes, 1, *size, file) == *size);
    fclose(file);
    return bytes;
}

/* A tensor with the elements of a file of raw numbers. */
static inline ETTensor *read_tensor(const char *path, const int64_t *shape, int32_t rank, int32_t dtype) {
    size_t size = 0;
    uint8_t *bytes = read_file(path, &size);
    ETTensor *tensor = NULL;
    OK(et_tensor_create(bytes, size, shape, rank, dtype, &tensor));
    free(bytes);
    return tensor;
}

/* The tensor holds the float32 numbers of a file. */
static inline void expect_floats(const ETTensor *tensor, const char *path) {
    size_t size = 0;
    float *expected = (float *)read_file(path, &size);
    CHECK(et_tensor_dtype(tensor) == ET_FLOAT32 && et_tensor_data_size(tensor) == size);
    const float *have = et_tensor_data(tensor);
    for (size_t i = 0; i < size / sizeof(float); i++) {
        if (!(fabsf(have[i] - expected[i]) <= 1e-5f * (1.0f + 10.0f * fabsf(expected[i])))) {
            fprintf(stderr, "element %zu is %g, not %g\n", i, have[i], expected[i]);
            exit(1);
        }
    }
    free(expected);
}

static inline ETValue tensor_value(ETTensor *tensor) {
    ETValue value = {.kind = ET_VALUE_TENSOR, .as.tensor = tensor};
    return value;
}

#endif
