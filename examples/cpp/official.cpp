/*
 * Runs a program that was delegated to ggml on the official C++ runtime: official MODEL.pte INPUT.bin... OUTPUT.bin
 *
 * Inputs are the elements of the method's inputs, one file each; the elements of all outputs go into one file. That the
 * backend is there takes nothing but linking executorch_ggml_runtime: see crates/ffi/tests/official/CMakeLists.txt.
 */
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

using executorch::extension::from_blob;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::EValue;

int main(int argc, char **argv) {
    if (argc < 3) {
        std::cerr << "usage: official MODEL.pte INPUT.bin... OUTPUT.bin\n";
        return 2;
    }
    Module module(argv[1]);
    const auto meta = module.method_meta("forward");
    if (!meta.ok() || meta->num_inputs() != static_cast<size_t>(argc - 3)) {
        std::cerr << argv[1] << " is not a program with " << argc - 3 << " inputs\n";
        return 1;
    }
    std::vector<std::vector<char>> elements;
    std::vector<TensorPtr> tensors;
    std::vector<EValue> inputs;
    for (int i = 2; i + 1 < argc; i++) {
        const auto info = meta->input_tensor_meta(i - 2);
        std::ifstream file(argv[i], std::ios::binary);
        elements.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
        if (!info.ok() || elements.back().size() != info->nbytes()) {
            std::cerr << argv[i] << " is not what input " << i - 2 << " takes\n";
            return 1;
        }
        const auto sizes = info->sizes();
        tensors.push_back(from_blob(elements.back().data(), {sizes.begin(), sizes.end()}, info->scalar_type()));
        inputs.emplace_back(*tensors.back());
    }
    const auto outputs = module.forward(inputs);
    if (!outputs.ok()) {
        std::cerr << "the run failed with error " << static_cast<uint32_t>(outputs.error()) << '\n';
        return 1;
    }
    std::ofstream file(argv[argc - 1], std::ios::binary);
    for (const EValue &output : *outputs) {
        const auto &tensor = output.toTensor();
        file.write(static_cast<const char *>(tensor.const_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
    }
    return file.flush() ? 0 : 1;
}
