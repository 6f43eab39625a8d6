//! Tensors that share memory, told apart.
//!
//! In eager PyTorch a view and its base change together. Here a name is a *view*: a storage and the steps that lead from
//! the storage's whole tensor to it. Writing through a view puts the new elements back along the steps, in reverse, which
//! gives the storage a new whole tensor; other views of that storage are taken anew when they are next read. A storage
//! that nothing writes to costs nothing: its views are read as the calls that made them.

use crate::ir::{Call, TensorType, ValueId};
use std::sync::Arc;

/// How many steps may lead to a view: each write through it, and each reading after one, takes all of them again.
pub(super) const MOST_STEPS: usize = 256;

/// A storage: the value of its whole tensor, and how often it was written.
#[derive(Debug)]
struct Storage {
    whole: ValueId,
    version: usize,
}

/// One step from a base to a view: the call that makes it, and which of the call's results it is.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The call; its argument `self` is the base.
    pub(super) call: Arc<Call>,
    /// The types of its results.
    pub(super) types: Arc<[TensorType]>,
    /// Which result.
    pub(super) index: usize,
}

/// What a name stands for.
#[derive(Debug)]
struct View {
    storage: usize,
    steps: Vec<Step>,
    /// Its value as of `version` of the storage.
    value: ValueId,
    version: usize,
}

/// All tensors of a function that have names.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    storages: Vec<Storage>,
    views: Vec<View>,
}

impl Aliases {
    /// A tensor with memory of its own.
    pub(super) fn fresh(&mut self, value: ValueId) -> usize {
        self.storages.push(Storage { whole: value, version: 0 });
        self.view(self.storages.len() - 1, Vec::new(), value)
    }

    /// A view of `base`, by one more step; none if those would be too many.
    pub(super) fn view_of(&mut self, base: usize, step: Step, value: ValueId) -> Option<usize> {
        let before = &self.views[base].steps;
        if before.len() >= MOST_STEPS {
            return None;
        }
        let steps = before.iter().cloned().chain([step]).collect();
        Some(self.view(self.views[base].storage, steps, value))
    }

    /// Another name for the same tensor.
    pub(super) fn same(&mut self, of: usize) -> usize {
        let View { storage, ref steps, value, version } = self.views[of];
        self.views.push(View { storage, steps: steps.clone(), value, version });
        self.views.len() - 1
    }

    fn view(&mut self, storage: usize, steps: Vec<Step>, value: ValueId) -> usize {
        self.views.push(View { storage, steps, value, version: self.storages[storage].version });
        self.views.len() - 1
    }

    /// The value of a view, if nothing was written to its storage since it was made.
    pub(super) fn current(&self, view: usize) -> Option<ValueId> {
        let own = &self.views[view];
        (own.version == self.storages[own.storage].version).then_some(own.value)
    }

    /// The whole tensor of a view's storage, and the steps that lead to the view.
    pub(super) fn path(&self, view: usize) -> (ValueId, Vec<Step>) {
        let own = &self.views[view];
        (self.storages[own.storage].whole, own.steps.clone())
    }

    /// Notes the value of a view that was taken anew.
    pub(super) fn refresh(&mut self, view: usize, value: ValueId) {
        let version = self.storages[self.views[view].storage].version;
        (self.views[view].value, self.views[view].version) = (value, version);
    }

    /// Notes a write: the storage's new whole tensor, and the value of the view that was written through.
    pub(super) fn write(&mut self, view: usize, whole: ValueId, value: ValueId) {
        let storage = &mut self.storages[self.views[view].storage];
        (storage.whole, storage.version) = (whole, storage.version + 1);
        self.refresh(view, value);
    }

    /// The first name of a storage that began as this value.
    pub(super) fn of(&self, value: ValueId) -> Option<usize> {
        self.views.iter().position(|view| view.steps.is_empty() && view.value == value)
    }

    /// Whether anything was written to the storage.
    pub(super) fn is_written(&self, view: usize) -> bool {
        self.storages[self.views[view].storage].version > 0
    }
}
