//! What a payload must obey beyond being well-formed. Run once by `File::parse`.

use super::File;
use crate::pte::ensure;
use crate::{Error, Place, Rule};

type Checked = Result<(), Error>;

pub(super) fn check(file: File<'_>) -> Checked {
    ensure(file.values().is_present(), Place::File, Rule::ValuesMissing)?;
    ensure(file.nodes().is_present(), Place::File, Rule::NodesMissing)
}
