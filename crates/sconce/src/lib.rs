//! Run ExecuTorch programs: modules, sessions and tensors
