//! A build without engines: operators run one by one, and no payload is a graph.

use super::Planned;
use crate::Error;
use crate::blocks::Blocks;
use crate::folding::Folding;
use crate::module::Shared;
use sconce_core::{Delegate, DelegateState, Method, Owned};

/// What no delegate is.
pub(crate) enum Part {}

impl Part {
    pub(crate) fn plan_text(&self, _: usize) -> String {
        match *self {}
    }

    pub(crate) fn watch(&self, _: &mut dyn DelegateState) {
        match *self {}
    }

    pub(crate) fn times_text(&self, _: &mut dyn DelegateState) -> String {
        match *self {}
    }
}

pub(crate) fn part(_: &dyn Delegate) -> Option<&Part> {
    None
}

#[derive(Default)]
pub(super) struct Regions {
    pub(super) planned: Planned,
    pub(super) delegates: Vec<Owned<dyn Delegate>>,
    pub(super) reason: Option<String>,
}

pub(super) struct Imports;

impl Imports {
    pub(super) fn of(_: &Shared, _: Method<'_>) -> Self {
        Self
    }

    pub(super) fn delegate(&mut self, _: Method<'_>, _: usize) -> Option<Result<Owned<dyn Delegate>, Error>> {
        None
    }
}

pub(super) fn regions(_: &Shared, _: usize, _: &mut Blocks, _: &Folding, _: &Imports) -> Result<Regions, Error> {
    Ok(Regions::default())
}
