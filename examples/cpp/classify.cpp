/*
 * Recognises handwritten digits: classify DIGITS.pte IMAGE.pgm...
 *
 *     cargo build --release -p sconce-ffi
 *     c++ -std=c++17 -I crates/ffi/include examples/cpp/classify.cpp -o classify -L target/release -lexecutorch_ffi \
 *         -Wl,-rpath,target/release
 *     ./classify examples/digits/digits.pte examples/digits/samples/digit_3_a.pgm
 */
#include <executorch_ffi.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

constexpr int side = 8;
using Image = std::array<float, side * side>;

// Turns a status into an exception.
void check(ETStatus *status) {
    std::unique_ptr<ETStatus, void (*)(ETStatus *)> owned(status, et_status_free);
    if (status->code != ET_OK) throw std::runtime_error(status->message);
}

using Module = std::unique_ptr<ETModule, void (*)(ETModule *)>;
using Session = std::unique_ptr<ETSession, void (*)(ETSession *)>;
using Tensor = std::unique_ptr<ETTensor, void (*)(ETTensor *)>;

Module load(const char *path) {
    ETModule *module = nullptr;
    check(et_module_load_file(path, &module));
    return {module, et_module_free};
}

Session open(ETModule *module) {
    ETSession *session = nullptr;
    check(et_session_create(module, "forward", &session));
    return {session, et_session_free};
}

// A tensor over memory that is ours: the library reads and writes it where it is.
template <size_t Size, size_t Rank>
Tensor borrow(std::array<float, Size> &elements, const int64_t (&shape)[Rank]) {
    ETTensor *tensor = nullptr;
    check(et_tensor_borrow(elements.data(), sizeof elements, shape, Rank, ET_FLOAT32, &tensor));
    return {tensor, et_tensor_free};
}

void read(const char *path, Image &image) {
    std::ifstream file(path, std::ios::binary);
    std::string magic;
    int width = 0, height = 0, most = 0;
    file >> magic >> width >> height >> most;
    file.get();
    std::array<char, side * side> bytes{};
    file.read(bytes.data(), bytes.size());
    if (!file || magic != "P5" || width != side || height != side || most != 255) {
        throw std::runtime_error(std::string(path) + " is not a PGM image of 8 x 8 pixels");
    }
    std::transform(bytes.begin(), bytes.end(), image.begin(),
                   [](char byte) { return static_cast<unsigned char>(byte) / 255.0f; });
}

}  // namespace

int main(int argc, char **argv) try {
    if (argc < 3) {
        std::cerr << "usage: classify DIGITS.pte IMAGE.pgm...\n";
        return 2;
    }
    const Module module = load(argv[1]);
    const Session session = open(module.get());
    Image image{};
    std::array<float, 10> scores{};
    const Tensor input = borrow(image, {1, 1, side, side});
    const Tensor output = borrow(scores, {1, 10});
    ETValue value{};
    value.kind = ET_VALUE_TENSOR;
    value.as.tensor = input.get();
    ETTensor *const outputs[] = {output.get()};
    for (int i = 2; i < argc; i++) {
        read(argv[i], image);
        check(et_session_run_into(session.get(), &value, 1, outputs, 1));
        const auto best = std::max_element(scores.begin(), scores.end());
        std::cout << "This is a " << best - scores.begin() << ".\n";
    }
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
