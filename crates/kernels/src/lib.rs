//! Arithmetic on slices, instantiated per instruction set
