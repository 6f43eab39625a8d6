//! Memory of this process, where the system tells.

/// Starts counting peak memory anew, where the system can; otherwise the peak is that of all programs so far.
pub(super) fn forget_peak() {
    if cfg!(target_os = "linux") {
        let _ = std::fs::write("/proc/self/clear_refs", "5");
    }
}

/// Memory of this process in MiB: what it has resident (`VmRSS:`), or has had at most (`VmHWM:`).
pub(super) fn resident(kind: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(kind))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}
