/*
 * Recognises a handwritten 2: digit MODEL.pte
 *
 * Loads the program from its file and from memory, runs both, and compares with PyTorch's numbers. Prints one line that
 * ends with "digit: 2" and the versions; exits with 1 if anything is not as it should be.
 */
#include <executorch_ffi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In key_functions.c. */
void free_everything(ETModule *module, ETTensor *tensor, ETStatus *status);
ETStatus *load_from_memory(const uint8_t *data, size_t data_size, ETModule **out);
ETStatus *load_from_file(const char *path, ETModule **out);
ETStatus *run(ETModule *module, ETTensor **inputs, int32_t input_count, ETTensor ***outputs, int32_t *output_count);

static const uint8_t pixels[64] = {
    0, 0, 7, 16, 14, 3,  0,  0, 0, 0, 9, 14, 11, 15, 0, 0, 0, 0, 1, 5,  0,  15, 5,  0, 0, 0, 0, 0,  0,  16, 5,  0,
    0, 0, 0, 0,  3,  16, 4,  0, 0, 0, 0, 1,  12, 14, 1, 0, 0, 0, 5, 12, 16, 16, 14, 1, 0, 0, 8, 16, 14, 10, 13, 3,
};
static const float pytorch[10] = {0.151877f,   -11.191449f, 7.983995f,   2.107998f,  -24.712172f,
                                  -13.808365f, -22.930323f, -11.250611f, -15.45546f, -15.581669f};

static void check(ETStatus *status, const char *what) {
    if (status->code != ET_OK) {
        fprintf(stderr, "%s: code %d: %s (%s)\n", what, (int)status->code, status->message, status->location);
        exit(1);
    }
    et_status_free(status);
}

static uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 20);
    if (file == NULL || bytes == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    *size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

/* The digit that a module sees in the pixels. */
static int recognise(ETModule *module, ETTensor *image) {
    ETTensor *inputs[1] = {image};
    ETTensor **outputs = NULL;
    int32_t count = 0;
    check(run(module, inputs, 1, &outputs, &count), "et_module_forward");
    if (count != 1 || et_tensor_data_size(outputs[0]) != sizeof pytorch || et_tensor_dtype(outputs[0]) != ET_FLOAT32) {
        fprintf(stderr, "the output is not one tensor of ten floats\n");
        exit(1);
    }
    const float *scores = et_tensor_data(outputs[0]);
    int best = 0;
    for (int i = 0; i < 10; i++) {
        if (fabsf(scores[i] - pytorch[i]) > 1e-3f) {
            fprintf(stderr, "score %d is %f, PyTorch says %f\n", i, scores[i], pytorch[i]);
            exit(1);
        }
        best = scores[i] > scores[best] ? i : best;
    }
    et_tensor_array_free(outputs, count);
    return best;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: digit MODEL.pte\n");
        return 1;
    }
    float image[64];
    for (int i = 0; i < 64; i++) {
        image[i] = (float)pixels[i] / 16.0f;
    }
    const int64_t shape[4] = {1, 1, 8, 8};
    ETTensor *input = NULL;
    check(et_tensor_create(image, sizeof image, shape, 4, ET_FLOAT32, &input), "et_tensor_create");

    ETModule *from_file = NULL;
    check(load_from_file(argv[1], &from_file), "et_module_load_file");
    size_t size = 0;
    uint8_t *bytes = read_file(argv[1], &size);
    ETModule *from_memory = NULL;
    check(load_from_memory(bytes, size, &from_memory), "et_module_load");
    free(bytes);
    int digit = recognise(from_file, input);
    int again = recognise(from_memory, input);
    free_everything(from_memory, NULL, NULL);

    /* A file that is not there is an error, with a sentence. */
    ETModule *none = NULL;
    ETStatus *status = load_from_file("no such file.pte", &none);
    if (status->code == ET_OK || status->message == NULL || none != NULL) {
        fprintf(stderr, "loading a file that is not there went well\n");
        return 1;
    }
    free_everything(from_file, input, status);
    printf("version: %s executorch: %s digit: %d\n", et_version(), et_executorch_version(), digit);
    return digit == 2 && again == 2 ? 0 : 1;
}
