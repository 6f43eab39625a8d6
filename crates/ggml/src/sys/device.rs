//! Devices, buffers of tensors, and plans: graphs that are placed and can be run.
#![allow(unsafe_code, reason = "the bindings of a C library")]

use super::{Context, Sizes, Tensor, ffi};
use sconce_format::ggml::Element;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};

/// A device that the linked ggml can compute on.
#[derive(Clone, Copy)]
pub(crate) struct Device(NonNull<ffi::ggml_backend_device>);

// SAFETY: devices are entries of ggml's own table, which lives as long as the process and does not change after it was
// made.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        // SAFETY: the table is made when it is first asked for, once for all threads.
        let count = unsafe { ffi::ggml_backend_dev_count() };
        // SAFETY: the index is below the count.
        (0..count).filter_map(|index| NonNull::new(unsafe { ffi::ggml_backend_dev_get(index) })).map(Self).collect()
    }

    /// What ggml calls it.
    pub(crate) fn name(self) -> String {
        // SAFETY: the name of a device lives as long as it.
        let name = unsafe { CStr::from_ptr(ffi::ggml_backend_dev_name(self.0.as_ptr())) };
        name.to_string_lossy().into_owned()
    }

    /// Whether it is the processor.
    pub(crate) fn is_cpu(self) -> bool {
        // SAFETY: a plain question about a device.
        unsafe { ffi::ggml_backend_dev_type(self.0.as_ptr()) == ffi::GGML_BACKEND_DEVICE_TYPE_CPU }
    }

    /// A buffer on it.
    pub(crate) fn buffer(self, bytes: usize) -> Result<Buffer, String> {
        // SAFETY: any number of bytes may be asked for; a buffer that cannot be had is null.
        let raw = unsafe {
            let kind = ffi::ggml_backend_dev_buffer_type(self.0.as_ptr());
            ffi::ggml_backend_buft_alloc_buffer(kind, bytes.max(1))
        };
        let raw = NonNull::new(raw).ok_or_else(|| format!("{} has no {bytes} bytes of memory left", self.name()))?;
        Ok(Buffer { raw })
    }
}

/// Memory of tensors on a device.
pub(crate) struct Buffer {
    raw: NonNull<ffi::ggml_backend_buffer>,
}

// SAFETY: a buffer is plain memory with a description that nothing changes; who may write into it is up to its owner.
unsafe impl Send for Buffer {}
// SAFETY: as above: what is shared between threads is only read after it has been filled.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// What offsets of tensors must be multiples of.
    pub(crate) fn alignment(&self) -> usize {
        // SAFETY: the buffer lives.
        unsafe { ffi::ggml_backend_buffer_get_alignment(self.raw.as_ptr()) }
    }

    /// Lets a tensor that is not computed lie at an offset.
    pub(crate) fn bind(&self, tensor: Tensor<'_>, offset: usize) -> Result<(), String> {
        let raw = tensor.raw.as_ptr();
        // SAFETY: the buffer and the description live; what is asked is plain.
        let (size, wanted, base) = unsafe {
            let buffer = self.raw.as_ptr();
            (
                ffi::ggml_backend_buffer_get_size(buffer),
                ffi::ggml_backend_buffer_get_alloc_size(buffer, raw),
                ffi::ggml_backend_buffer_get_base(buffer),
            )
        };
        let inside = offset.checked_add(wanted).is_some_and(|end| end <= size);
        if !inside || !offset.is_multiple_of(self.alignment()) || !tensor.get().data.is_null() {
            return Err(format!("a tensor of {wanted} bytes at {offset} of a buffer of {size}"));
        }
        let address = base.cast::<u8>().wrapping_add(offset).cast::<c_void>();
        // SAFETY: the tensor lies inside of the buffer, at its alignment, and had no place.
        match unsafe { ffi::ggml_backend_tensor_alloc(self.raw.as_ptr(), raw, address) } {
            ffi::GGML_STATUS_SUCCESS => Ok(()),
            status => Err(format!("ggml could not place a tensor (status {status})")),
        }
    }

    /// Fills a part of it, seen as a tensor of these elements; nothing may be computed with it meanwhile.
    pub(crate) fn fill(&mut self, element: Element, sizes: Sizes, offset: usize, bytes: &[u8]) -> Result<(), String> {
        let context = Context::new(1)?;
        let tensor = context.leaf(element, sizes)?;
        self.bind(tensor, offset)?;
        write(tensor.raw, bytes)
    }

    /// Fills all of it with zeros.
    pub(crate) fn clear(&mut self) {
        // SAFETY: the buffer lives, and nobody else has it.
        unsafe { ffi::ggml_backend_buffer_clear(self.raw.as_ptr(), 0) };
    }

    /// Says that it holds what is never changed.
    pub(crate) fn seal(&self) {
        // SAFETY: the buffer lives.
        unsafe { ffi::ggml_backend_buffer_set_usage(self.raw.as_ptr(), ffi::GGML_BACKEND_BUFFER_USAGE_WEIGHTS) };
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it is this one's own; plans that refer to it are dropped before.
        unsafe { ffi::ggml_backend_buffer_free(self.raw.as_ptr()) };
    }
}

/// Copies bytes into a tensor that has a place.
fn write(tensor: NonNull<ffi::ggml_tensor>, bytes: &[u8]) -> Result<(), String> {
    // SAFETY: the description lives.
    let wanted = unsafe { ffi::ggml_nbytes(tensor.as_ptr()) };
    if bytes.len() != wanted {
        return Err(format!("{} bytes for a tensor of {wanted}", bytes.len()));
    }
    // SAFETY: the tensor has a place, and the bytes are as many as it holds.
    unsafe { ffi::ggml_backend_tensor_set(tensor.as_ptr(), bytes.as_ptr().cast(), 0, wanted) };
    Ok(())
}

/// Where one session computes: a device, if it is not the processor, then the processor with threads of its own.
pub(crate) struct Workers {
    backends: Vec<NonNull<ffi::ggml_backend>>,
    pool: Option<NonNull<ffi::ggml_threadpool>>,
}

// SAFETY: nothing in it is tied to the thread that made it, and one thread uses it at a time (`&mut` to run).
unsafe impl Send for Workers {}

impl Workers {
    /// On a device, with n threads on the processor.
    pub(crate) fn new(device: Device, threads: usize) -> Result<Self, String> {
        let mut workers = Self { backends: Vec::new(), pool: None };
        let cpu = Device::all().into_iter().find(|device| device.is_cpu()).ok_or("ggml has no processor")?;
        for each in [Some(device).filter(|device| !device.is_cpu()), Some(cpu)].into_iter().flatten() {
            // SAFETY: the device lives; no parameters.
            let backend = unsafe { ffi::ggml_backend_dev_init(each.0.as_ptr(), ptr::null()) };
            workers.backends.push(NonNull::new(backend).ok_or_else(|| format!("{} does not start", each.name()))?);
        }
        let threads = c_int::try_from(threads.clamp(1, 512)).unwrap_or(1);
        if let Some(cpu) = workers.backends.last() {
            // SAFETY: the last backend is the processor. The pool outlives it.
            unsafe {
                ffi::ggml_backend_cpu_set_n_threads(cpu.as_ptr(), threads);
                let mut params = ffi::ggml_threadpool_params_default(threads);
                workers.pool = NonNull::new(ffi::ggml_threadpool_new(&raw mut params));
                if let Some(pool) = workers.pool {
                    ffi::ggml_backend_cpu_set_threadpool(cpu.as_ptr(), pool.as_ptr());
                }
            }
        }
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for backend in &self.backends {
            // SAFETY: it is this one's own; plans on it are dropped before.
            unsafe { ffi::ggml_backend_free(backend.as_ptr()) };
        }
        if let Some(pool) = self.pool {
            // SAFETY: the processor that used it is gone.
            unsafe { ffi::ggml_threadpool_free(pool.as_ptr()) };
        }
    }
}

/// What a graph begins and ends with.
pub(crate) struct Ends<'c> {
    /// What is written before each run.
    pub(crate) inputs: Vec<Tensor<'c>>,
    /// What is read after each run.
    pub(crate) outputs: Vec<Tensor<'c>>,
    /// What is computed for what it changes.
    pub(crate) effects: Vec<Tensor<'c>>,
}

/// A graph that is placed.
pub(crate) struct Plan {
    schedule: NonNull<ffi::ggml_backend_sched>,
    graph: NonNull<ffi::ggml_cgraph>,
    inputs: Vec<NonNull<ffi::ggml_tensor>>,
    outputs: Vec<NonNull<ffi::ggml_tensor>>,
    /// Holds the descriptions that all of the above refer to.
    _context: Context,
}

// SAFETY: nothing in it is tied to the thread that made it, and one thread uses it at a time (`&mut` to run).
unsafe impl Send for Plan {}

impl Plan {
    /// Builds a graph of at most `capacity` tensors and places it. Buffers that tensors are bound to, and the workers,
    /// must outlive the plan.
    pub(crate) fn build(
        workers: &Workers,
        capacity: usize,
        build: impl for<'c> FnOnce(&'c Context) -> Result<Ends<'c>, String>,
    ) -> Result<Self, String> {
        let context = Context::new(capacity)?;
        let raw = |tensors: &[Tensor<'_>]| tensors.iter().map(|tensor| tensor.raw).collect::<Vec<_>>();
        let Ends { inputs, outputs, effects } = build(&context)?;
        let (inputs, outputs, effects) = (raw(&inputs), raw(&outputs), raw(&effects));
        // SAFETY: the context kept room for a graph of its capacity.
        let graph = unsafe { ffi::ggml_new_graph_custom(context.raw.as_ptr(), capacity, false) };
        let graph = NonNull::new(graph).ok_or("ggml has no memory for a graph")?;
        // SAFETY: all tensors are of this context, which lives; the graph has room for all that it can hold.
        unsafe {
            inputs.iter().for_each(|input| ffi::ggml_set_input(input.as_ptr()));
            outputs.iter().for_each(|output| ffi::ggml_set_output(output.as_ptr()));
            effects.iter().chain(&outputs).for_each(|end| ffi::ggml_build_forward_expand(graph.as_ptr(), end.as_ptr()));
        }
        check(workers, graph)?;
        let mut backends: Vec<_> = workers.backends.iter().map(|backend| backend.as_ptr()).collect();
        let count = c_int::try_from(backends.len()).unwrap_or(1);
        // SAFETY: the last backend is the processor; the schedule has room for the whole graph.
        let schedule = unsafe {
            ffi::ggml_backend_sched_new(backends.as_mut_ptr(), ptr::null_mut(), count, capacity.max(64), false, true)
        };
        let schedule = NonNull::new(schedule).ok_or("ggml has no memory for a schedule")?;
        let plan = Self { schedule, graph, inputs, outputs, _context: context };
        // SAFETY: schedule and graph live.
        match unsafe { ffi::ggml_backend_sched_alloc_graph(plan.schedule.as_ptr(), plan.graph.as_ptr()) } {
            true => Ok(plan),
            false => Err("there is not enough memory for what the graph computes".to_owned()),
        }
    }

    /// Writes an input.
    pub(crate) fn write(&mut self, input: usize, bytes: &[u8]) -> Result<(), String> {
        let tensor = *self.inputs.get(input).ok_or("there is no such input")?;
        // SAFETY: the description lives. An input that nothing reads has no place and needs none.
        if unsafe { tensor.as_ref() }.data.is_null() { Ok(()) } else { write(tensor, bytes) }
    }

    /// Runs.
    pub(crate) fn compute(&mut self) -> Result<(), String> {
        // SAFETY: the graph is placed, and all of its operations were checked to be such that they can be computed.
        match unsafe { ffi::ggml_backend_sched_graph_compute(self.schedule.as_ptr(), self.graph.as_ptr()) } {
            ffi::GGML_STATUS_SUCCESS => Ok(()),
            status => Err(format!("ggml could not compute the graph (status {status})")),
        }
    }

    /// Reads an output.
    pub(crate) fn read(&self, output: usize, bytes: &mut [u8]) -> Result<(), String> {
        let tensor = *self.outputs.get(output).ok_or("there is no such output")?;
        // SAFETY: the description lives.
        let wanted = unsafe { ffi::ggml_nbytes(tensor.as_ptr()) };
        if bytes.len() != wanted {
            return Err(format!("{} bytes for an output of {wanted}", bytes.len()));
        }
        // SAFETY: the tensor has a place, and as many bytes as there is room for.
        unsafe { ffi::ggml_backend_tensor_get(tensor.as_ptr(), bytes.as_mut_ptr().cast(), 0, wanted) };
        Ok(())
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: it is this one's own; workers and context still live.
        unsafe { ffi::ggml_backend_sched_free(self.schedule.as_ptr()) };
    }
}

/// Checks that the processor can compute every operation: what no device can ends the process otherwise.
fn check(workers: &Workers, graph: NonNull<ffi::ggml_cgraph>) -> Result<(), String> {
    let Some(cpu) = workers.backends.last() else { return Ok(()) };
    // SAFETY: the graph lives.
    let count = unsafe { ffi::ggml_graph_n_nodes(graph.as_ptr()) };
    for index in 0..count {
        // SAFETY: the index is below the count, and the processor only looks at the description.
        let (supported, name) = unsafe {
            let node = ffi::ggml_graph_node(graph.as_ptr(), index);
            (ffi::ggml_backend_supports_op(cpu.as_ptr(), node), CStr::from_ptr(ffi::ggml_op_desc(node)))
        };
        if !supported {
            return Err(format!("ggml has no {} for these elements", name.to_string_lossy()));
        }
    }
    Ok(())
}
