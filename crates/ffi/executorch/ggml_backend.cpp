/*
 * GgmlBackend in the official C++ runtime: programs that were delegated to ggml run there on this library's engine.
 *
 * Linking this file registers the backend before `main`; CMake's target executorch_ggml_runtime does both (docs/ggml.md).
 * It only translates: the runtime's buffers and tensors to those of executorch_ffi.h, and statuses to its errors, with their
 * sentences in its log.
 */
#include <executorch_ffi.h>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::ArrayRef;
using executorch::runtime::Backend;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::kTensorDimensionLimit;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;
using executorch::runtime::Span;

constexpr const char *name = "GgmlBackend";
using Shape = std::array<int64_t, kTensorDimensionLimit>;
using Input = std::unique_ptr<ETTensor, void (*)(ETTensor *)>;

// The element types that both know.
constexpr std::pair<ScalarType, ETDType> types[] = {
    {ScalarType::Float, ET_FLOAT32},
    {ScalarType::Double, ET_FLOAT64},
    {ScalarType::Long, ET_INT64},
    {ScalarType::Int, ET_INT32},
    {ScalarType::Short, ET_INT16},
    {ScalarType::Char, ET_INT8},
    {ScalarType::Byte, ET_UINT8},
    {ScalarType::Bool, ET_BOOL},
    {ScalarType::Half, ET_FLOAT16},
    {ScalarType::BFloat16, ET_BFLOAT16},
};

int32_t number_of(ScalarType type) {
    for (const auto &[own, number] : types) {
        if (own == type) return number;
    }
    return -1;
}

// What a status says, to the log and as the runtime's error.
Error taken(ETStatus *status, Error error) {
    std::unique_ptr<ETStatus, void (*)(ETStatus *)> owned(status, et_status_free);
    if (status->code == ET_OK) return Error::Ok;
    ET_LOG(Error, "%s: %s", name, status->message);
    return status->code == ET_OUT_OF_MEMORY ? Error::MemoryAllocationFailed : error;
}

// The program's data, kept until the delegate has its weights.
struct Weights {
    const NamedDataMap *map;
    std::map<std::string, FreeableBuffer> found;

    static const void *find(const void *context, const char *key, size_t *out_size) {
        auto &weights = *static_cast<Weights *>(const_cast<void *>(context));
        auto place = weights.found.find(key);
        if (place == weights.found.end()) {
            if (weights.map == nullptr) return nullptr;
            Result<FreeableBuffer> data = weights.map->get_data(key);
            if (!data.ok()) return nullptr;
            place = weights.found.emplace(key, std::move(data.get())).first;
        }
        *out_size = place->second.size();
        return place->second.data();
    }
};

Error borrow(const EValue &value, std::vector<Input> &inputs) {
    if (!value.isTensor()) return Error::InvalidArgument;
    const Tensor &tensor = value.toTensor();
    const auto order = tensor.dim_order();
    const auto rank = static_cast<size_t>(tensor.dim());
    if (rank > kTensorDimensionLimit) return Error::NotSupported;
    if (!executorch::runtime::is_contiguous_dim_order(order.data(), order.size())) {
        ET_LOG(Error, "%s: an input is not row-major", name);
        return Error::InvalidArgument;
    }
    Shape shape{};
    for (size_t i = 0; i < rank; i++) shape[i] = tensor.size(static_cast<ssize_t>(i));
    ETTensor *borrowed = nullptr;
    ETStatus *status = et_tensor_borrow(tensor.mutable_data_ptr(), tensor.nbytes(), shape.data(),
                                        static_cast<int32_t>(rank), number_of(tensor.scalar_type()), &borrowed);
    const Error error = taken(status, Error::InvalidArgument);
    if (error == Error::Ok) inputs.emplace_back(borrowed, et_tensor_free);
    return error;
}

// Gives an output of the call its shape and says where it is.
void *output(void *user_data, int32_t index, int32_t dtype, const int64_t *shape, int32_t rank, size_t bytes) {
    const auto &outputs = *static_cast<const Span<EValue *> *>(user_data);
    if (static_cast<size_t>(index) >= outputs.size() || !outputs[index]->isTensor()) return nullptr;
    Tensor &tensor = outputs[index]->toTensor();
    const auto order = tensor.dim_order();
    std::array<SizesType, kTensorDimensionLimit> sizes{};
    if (static_cast<size_t>(rank) > sizes.size() || number_of(tensor.scalar_type()) != dtype) return nullptr;
    if (!executorch::runtime::is_contiguous_dim_order(order.data(), order.size())) return nullptr;
    for (int32_t i = 0; i < rank; i++) sizes[i] = static_cast<SizesType>(shape[i]);
    const ArrayRef<SizesType> wanted(sizes.data(), static_cast<size_t>(rank));
    if (executorch::runtime::resize_tensor(tensor, wanted) != Error::Ok || tensor.nbytes() != bytes) return nullptr;
    return tensor.mutable_data_ptr();
}

class GgmlBackend final : public BackendInterface {
  public:
    bool is_available() const override { return et_backend_available(ET_BACKEND_GGML) != 0; }

    Result<DelegateHandle *> init(BackendInitContext &context, FreeableBuffer *processed,
                                  ArrayRef<CompileSpec>) const override {
        Weights weights{context.get_named_data_map(), {}};
        ETBackendPayload payload{};
        payload.size = sizeof payload;
        payload.method = context.get_method_name();
        payload.data = processed->data();
        payload.data_size = processed->size();
        payload.named_data = Weights::find;
        payload.context = &weights;

        ETDelegateOptions options{};
        options.size = sizeof options;
        const Result<int> threads = context.get_runtime_spec<int>("threads");
        const Result<const char *> device = context.get_runtime_spec<const char *>("device");
        options.threads = threads.ok() ? threads.get() : 0;
        options.device = device.ok() ? device.get() : nullptr;

        ETDelegate *delegate = nullptr;
        ETStatus *status = et_delegate_create(name, &payload, &options, &delegate);
        const Error error = taken(status, Error::DelegateInvalidCompatibility);
        if (error != Error::Ok) return error;
        processed->Free();
        return static_cast<DelegateHandle *>(delegate);
    }

    Error execute(BackendExecutionContext &, DelegateHandle *handle, Span<EValue *> args) const override {
        auto *delegate = static_cast<ETDelegate *>(handle);
        const auto inputs = static_cast<size_t>(et_delegate_input_count(delegate));
        if (args.size() != inputs + static_cast<size_t>(et_delegate_output_count(delegate))) {
            ET_LOG(Error, "%s: a call with %zu arguments, the delegate takes others", name, args.size());
            return Error::InvalidProgram;
        }
        std::vector<Input> borrowed;
        borrowed.reserve(inputs);
        for (size_t i = 0; i < inputs; i++) {
            const Error error = borrow(*args[i], borrowed);
            if (error != Error::Ok) return error;
        }
        std::vector<const ETTensor *> tensors;
        for (const Input &tensor : borrowed) tensors.push_back(tensor.get());
        Span<EValue *> outputs(args.data() + inputs, args.size() - inputs);
        ETStatus *status =
            et_delegate_run(delegate, tensors.data(), static_cast<int32_t>(inputs), output, &outputs);
        return taken(status, Error::DelegateInvalidHandle);
    }

    void destroy(DelegateHandle *handle) const override { et_delegate_free(static_cast<ETDelegate *>(handle)); }
};

GgmlBackend backend;
[[maybe_unused]] const Error registered = executorch::runtime::register_backend({name, &backend});

}  // namespace
