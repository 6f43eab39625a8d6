# executorch_ggml_runtime: GgmlBackend for programs that run on the official C++ runtime. There is such a target where a
# project has found that runtime (`find_package(executorch)`) before it adds this one with ET_BUILD_GGML. Linking it
# registers the backend.

function(executorch_ffi_official)
    enable_language(CXX)
    add_library(executorch_ggml_registration STATIC executorch/ggml_backend.cpp)
    target_include_directories(executorch_ggml_registration SYSTEM PRIVATE ${EXECUTORCH_INCLUDE_DIRS})
    target_compile_definitions(executorch_ggml_registration PRIVATE ${EXECUTORCH_COMPILE_DEFINITIONS})
    target_compile_features(executorch_ggml_registration PRIVATE cxx_std_${EXECUTORCH_CXX_STANDARD})
    target_link_libraries(executorch_ggml_registration PUBLIC executorch_ffi::executorch_ffi)
    set_target_properties(executorch_ggml_registration PROPERTIES POSITION_INDEPENDENT_CODE ON)

    # Nothing refers to what registers itself, so the linker is told to keep it.
    set(keep "LINKER:--whole-archive,$<TARGET_FILE:executorch_ggml_registration>,--no-whole-archive")
    if(APPLE)
        set(keep "LINKER:-force_load,$<TARGET_FILE:executorch_ggml_registration>")
    elseif(MSVC)
        set(keep "/WHOLEARCHIVE:$<TARGET_FILE:executorch_ggml_registration>")
    endif()
    add_library(executorch_ggml_runtime INTERFACE)
    target_link_options(executorch_ggml_runtime INTERFACE "${keep}")
    target_link_libraries(executorch_ggml_runtime INTERFACE executorch_ggml_registration)
endfunction()
