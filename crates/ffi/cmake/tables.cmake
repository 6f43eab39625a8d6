# Reads the .txt tables of this folder: columns are parted by spaces, lines that start with # are comments.
set(EXECUTORCH_FFI_TABLES "${CMAKE_CURRENT_LIST_DIR}")

# The rows of a table, each with "|" between its columns, so that a list can hold them.
function(executorch_ffi_rows table out)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${EXECUTORCH_FFI_TABLES}/${table}.txt")
    file(STRINGS "${EXECUTORCH_FFI_TABLES}/${table}.txt" rows REGEX "^[^#]")
    string(REGEX REPLACE " +" "|" rows "${rows}")
    set(${out} "${rows}" PARENT_SCOPE)
endfunction()

# The row of a table whose first columns are as given ("windows|x64|mingw"), as a list; empty if there is none.
function(executorch_ffi_row table key out)
    executorch_ffi_rows(${table} rows)
    set(${out} "" PARENT_SCOPE)
    foreach(row IN LISTS rows)
        string(FIND "${row}|" "${key}|" at)
        if(at EQUAL 0)
            string(REPLACE "|" ";" row "${row}")
            set(${out} "${row}" PARENT_SCOPE)
            return()
        endif()
    endforeach()
endfunction()
