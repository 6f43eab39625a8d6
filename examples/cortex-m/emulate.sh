#!/bin/sh
# Runs an image on an emulated Cortex-M4 board; text and exit status come through semihosting.
exec timeout 120 qemu-system-arm -machine mps2-an386 -cpu cortex-m4 -nographic -monitor none -serial none \
    -semihosting-config enable=on,target=native -kernel "$@"
