# The library from an archive of a release.
#
# Beside <base>/<version>/<archive> is the small <archive>.sha256, "<hash>  <archive>", which is asked for first: only if
# it differs from what the cache holds is the archive downloaded. The cache has one folder for each version, platform,
# architecture, choice of backends and build type:
#
#     <cache>/<version>/<archive without its ending>/record          the archive's hash, then one for every file
#     <cache>/<version>/<archive without its ending>/prefix/...      what was in the archive
#
# A cached copy counts only if all its files still have their hashes. If the server cannot be asked, it does. A new copy is
# unpacked beside the old one and takes its place when it is complete, under a lock.

function(executorch_ffi_prebuilt platform architecture backends build_type out_prefix)
    set(name "libexecutorch_ffi-${platform}-${architecture}-${backends}")
    if(build_type STREQUAL "debug")
        string(APPEND name "-debug")
    endif()
    set(archive "${name}.tar.gz")
    if(platform STREQUAL "windows")
        set(archive "${name}.zip")
    endif()
    string(REGEX REPLACE "/+$" "" base "${EXECUTORCH_PREBUILT_BASE_URL}")
    set(url "${base}/${EXECUTORCH_VERSION}/${archive}")
    set(folder "${EXECUTORCH_CACHE_DIR}/${EXECUTORCH_VERSION}/${name}")
    set(${out_prefix} "${folder}/prefix" PARENT_SCOPE)
    file(MAKE_DIRECTORY "${EXECUTORCH_CACHE_DIR}/${EXECUTORCH_VERSION}")
    file(LOCK "${folder}.lock" GUARD FUNCTION TIMEOUT 900)

    executorch_ffi_cached("${folder}" cached_hash damage)
    executorch_ffi_published_hash("${url}" "${archive}" hash problem)
    if(problem AND cached_hash)
        message(STATUS "executorch_ffi: using the cached ${name} in ${folder}, as ${problem}.")
        return()
    elseif(problem)
        message(FATAL_ERROR "executorch_ffi: there is no ${archive}: ${problem}, and ${damage}.\n"
            "Put one in reach (EXECUTORCH_PREBUILT_BASE_URL, now '${EXECUTORCH_PREBUILT_BASE_URL}'; EXECUTORCH_VERSION, now "
            "'${EXECUTORCH_VERSION}'), name an installation with EXECUTORCH_INSTALL_DIR, or build it with Rust: "
            "-DEXECUTORCH_BUILD_MODE=source.")
    elseif(hash STREQUAL cached_hash)
        message(STATUS "executorch_ffi: the cached ${name} in ${folder} is what is published; nothing to download.")
        return()
    elseif(EXECUTORCH_DISABLE_DOWNLOAD)
        message(FATAL_ERROR "executorch_ffi: EXECUTORCH_DISABLE_DOWNLOAD is on, and ${folder} does not hold the archive with "
            "EXECUTORCH_PREBUILT_SHA256 = ${hash}.")
    elseif(cached_hash)
        message(STATUS "executorch_ffi: ${archive} was published anew (${hash} in place of ${cached_hash}).")
    else()
        message(STATUS "executorch_ffi: ${damage}.")
    endif()
    executorch_ffi_fetch("${url}" "${archive}" "${hash}" "${folder}")
endfunction()

# The hash that the archive should have; or why it is not known, as the end of a sentence.
function(executorch_ffi_published_hash url archive out_hash out_problem)
    set(${out_hash} "" PARENT_SCOPE)
    set(${out_problem} "" PARENT_SCOPE)
    if(EXECUTORCH_PREBUILT_SHA256)
        string(TOLOWER "${EXECUTORCH_PREBUILT_SHA256}" hash)
        set(${out_hash} "${hash}" PARENT_SCOPE)
        return()
    elseif(EXECUTORCH_DISABLE_DOWNLOAD)
        set(${out_problem} "EXECUTORCH_DISABLE_DOWNLOAD is on" PARENT_SCOPE)
        return()
    elseif(NOT EXECUTORCH_PREBUILT_BASE_URL)
        set(${out_problem} "EXECUTORCH_PREBUILT_BASE_URL is not set" PARENT_SCOPE)
        return()
    endif()
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${archive}.sha256")
    executorch_ffi_download("${url}.sha256" "${file}" 30 problem)
    if(problem)
        set(${out_problem} "${problem}" PARENT_SCOPE)
        return()
    endif()
    file(READ "${file}" text LIMIT 1024)
    if(NOT text MATCHES "^([0-9a-fA-F]+) [ *]([^ \r\n]+)[\r\n]*$" OR NOT CMAKE_MATCH_2 STREQUAL archive)
        set(${out_problem} "${url}.sha256 does not have the form '<hash>  ${archive}'" PARENT_SCOPE)
        return()
    endif()
    string(TOLOWER "${CMAKE_MATCH_1}" hash)
    set(${out_hash} "${hash}" PARENT_SCOPE)
endfunction()

# Downloads the archive, checks it, and makes it the cached copy.
function(executorch_ffi_fetch url archive hash folder)
    message(STATUS "executorch_ffi: downloading ${url}")
    set(new "${folder}.new")
    file(REMOVE_RECURSE "${new}")
    file(MAKE_DIRECTORY "${new}/prefix")
    executorch_ffi_download("${url}" "${new}/${archive}" 0 problem)
    if(problem)
        file(REMOVE_RECURSE "${new}")
        message(FATAL_ERROR "executorch_ffi: ${problem}. Try again later, or set EXECUTORCH_DISABLE_DOWNLOAD=ON to use a "
            "copy that was downloaded before.")
    endif()
    file(SHA256 "${new}/${archive}" actual)
    if(NOT actual STREQUAL hash)
        file(REMOVE_RECURSE "${new}")
        message(FATAL_ERROR "executorch_ffi: ${url} has the SHA-256 ${actual}, but ${hash} was expected. It was not used: "
            "it is damaged, or not what was published.")
    endif()
    file(ARCHIVE_EXTRACT INPUT "${new}/${archive}" DESTINATION "${new}/prefix")
    file(REMOVE "${new}/${archive}")

    set(record "${hash}  ${archive}\n")
    file(GLOB_RECURSE files LIST_DIRECTORIES false RELATIVE "${new}/prefix" "${new}/prefix/*")
    foreach(file IN LISTS files)
        file(SHA256 "${new}/prefix/${file}" file_hash)
        string(APPEND record "${file_hash}  ${file}\n")
    endforeach()
    file(WRITE "${new}/record" "${record}")
    file(REMOVE_RECURSE "${folder}")
    file(RENAME "${new}" "${folder}")
    message(STATUS "executorch_ffi: unpacked to ${folder}; its SHA-256 is ${hash}, as published.")
endfunction()

# The hash of the archive that a folder of the cache was made from, if all its files are as they were then; else empty,
# and why, as the end of a sentence.
function(executorch_ffi_cached folder out_hash out_damage)
    set(${out_hash} "" PARENT_SCOPE)
    if(NOT EXISTS "${folder}/record")
        set(${out_damage} "the cache has no ${folder}" PARENT_SCOPE)
        return()
    endif()
    file(STRINGS "${folder}/record" lines)
    list(POP_FRONT lines first)
    string(SUBSTRING "${first}" 0 64 hash)
    foreach(line IN LISTS lines)
        string(SUBSTRING "${line}" 0 64 expected)
        string(SUBSTRING "${line}" 66 -1 file)
        set(actual "")
        if(EXISTS "${folder}/prefix/${file}")
            file(SHA256 "${folder}/prefix/${file}" actual)
        endif()
        if(NOT actual STREQUAL expected)
            set(${out_damage} "the cached ${folder}/prefix/${file} is missing or was changed" PARENT_SCOPE)
            return()
        endif()
    endforeach()
    set(${out_hash} "${hash}" PARENT_SCOPE)
endfunction()

# Downloads to a file within so many seconds (0: as long as bytes come). What went wrong is the end of a sentence.
function(executorch_ffi_download url file seconds out_problem)
    file(DOWNLOAD "${url}" "${file}" STATUS status TIMEOUT ${seconds} INACTIVITY_TIMEOUT 60 TLS_VERIFY ON
        HTTPHEADER "Cache-Control: no-cache")
    list(GET status 0 code)
    list(GET status 1 reason)
    set(${out_problem} "" PARENT_SCOPE)
    if(NOT code EQUAL 0)
        string(REGEX REPLACE "^\"|\"$" "" reason "${reason}")
        set(${out_problem} "${url} cannot be downloaded (${reason})" PARENT_SCOPE)
    endif()
endfunction()
