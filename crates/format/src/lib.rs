//! The bytes in ExecuTorch files: verified zero-copy views and writers
