//! One instance for one data directory.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::OpenError;

/// The name of the lock's file in the data directory. The file stays when the lock is given up.
pub const LOCK_FILE: &str = "lock";

/// Holds a data directory for one instance, until it is dropped or the process ends in whatever way.
#[derive(Debug)]
pub struct DirectoryLock {
    directory: PathBuf,
    /// The operating system holds the lock for as long as this is open.
    _file: File,
}

impl DirectoryLock {
    /// Makes the directory where it is missing, and locks it.
    ///
    /// # Errors
    /// [`OpenError::InUse`] while another instance holds it, [`OpenError::Directory`] when it cannot be made
    /// or locked.
    pub fn acquire(directory: &Path) -> Result<Self, OpenError> {
        let refused = |source| OpenError::Directory { directory: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(refused)?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(directory.join(LOCK_FILE))
            .map_err(refused)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { directory: directory.to_owned(), _file: file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { directory: directory.to_owned() }),
            Err(TryLockError::Error(source)) => Err(refused(source)),
        }
    }

    /// The directory that it holds.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_instance_is_refused_until_the_first_has_gone() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("new");
        let first = DirectoryLock::acquire(&directory).unwrap();
        let error = DirectoryLock::acquire(&directory).unwrap_err();
        assert_eq!(error.code(), "data_directory_in_use");
        drop(first);
        DirectoryLock::acquire(&directory).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_has_its_own_error() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        let error = DirectoryLock::acquire(&file.join("below")).unwrap_err();
        assert_eq!(error.code(), "data_directory_unavailable");
    }
}
