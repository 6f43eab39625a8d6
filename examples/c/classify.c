/*
 * Recognises a handwritten digit: classify DIGITS.pte IMAGE.pgm
 *
 *     cargo build --release -p sconce-ffi
 *     cc -I crates/ffi/include examples/c/classify.c -o classify -L target/release -lexecutorch_ffi \
 *        -Wl,-rpath,target/release
 *     ./classify examples/digits/digits.pte examples/digits/samples/digit_3_a.pgm
 */
#include <executorch_ffi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE };

/* Ends the program if a call failed. */
static void check(ETStatus *status) {
    if (status->code != ET_OK) {
        fprintf(stderr, "%s (code %d, %s)\n", status->message, status->code, status->location);
        exit(1);
    }
    et_status_free(status);
}

/* Reads a grey image of 8 x 8 pixels as numbers from 0 to 1. */
static void read_image(const char *path, float *pixels) {
    unsigned char bytes[PIXELS];
    int width = 0, height = 0, most = 0;
    FILE *file = fopen(path, "rb");
    if (!file || fscanf(file, "P5 %d %d %d", &width, &height, &most) != 3 || fgetc(file) == EOF ||
        width != SIDE || height != SIDE || most != 255 || fread(bytes, 1, PIXELS, file) != PIXELS) {
        fprintf(stderr, "%s is not a PGM image of %d x %d pixels\n", path, SIDE, SIDE);
        exit(1);
    }
    fclose(file);
    for (int i = 0; i < PIXELS; i++) pixels[i] = (float)bytes[i] / 255.0f;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: classify DIGITS.pte IMAGE.pgm\n");
        return 2;
    }
    float pixels[PIXELS];
    read_image(argv[2], pixels);

    ETModule *module = NULL;
    check(et_module_load_file(argv[1], &module));

    const int64_t shape[] = {1, 1, SIDE, SIDE};
    ETTensor *image = NULL;
    check(et_tensor_create(pixels, sizeof pixels, shape, 4, ET_FLOAT32, &image));

    ETTensor **outputs = NULL;
    int32_t count = 0;
    check(et_module_forward(module, &image, 1, &outputs, &count));

    const float *scores = et_tensor_data(outputs[0]);
    int best = 0;
    for (int digit = 1; digit < 10; digit++) {
        if (scores[digit] > scores[best]) best = digit;
    }
    printf("This is a %d.\n", best);

    et_tensor_array_free(outputs, count);
    et_tensor_free(image);
    et_module_free(module);
    return 0;
}
