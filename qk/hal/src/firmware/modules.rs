//! The files that the loader brought along.
//!
//! Loaders that pass one only (QEMU's `-initrd`) can pass several in it, each from the begin of a page on: then their lengths are on
//! the command line, `margay.modules=BYTES,BYTES`.
//!
//! BOUND: at boot only.

use crate::addr::PhysRange;
use abi::map::PAGE;
use arrayvec::ArrayVec;

/// Modules that are looked at.
pub const MAX_MODULES: usize = 8;

/// The modules, in the loader's order.
pub type Modules = ArrayVec<PhysRange, MAX_MODULES>;

/// The command line word that says how long the modules in the only one are, in bytes.
const LENGTHS: &str = "margay.modules=";

/// The modules in `only`, if the command line says that it holds some, else that one.
pub(super) fn of_one(only: PhysRange, cmdline: &str) -> Result<Modules, &'static str> {
    let mut words = cmdline.split_ascii_whitespace();
    let Some(lengths) = words.find_map(|word| word.strip_prefix(LENGTHS)) else {
        return Ok(Modules::from_iter([only]));
    };
    let mut modules = Modules::new();
    let mut start = only.start;
    for word in lengths.split(',') {
        let len_bytes: u64 = word.parse().map_err(|_| "margay.modules: no number")?;
        let fits = only.holds(start, len_bytes) && len_bytes > 0;
        let module = fits.then(|| PhysRange::new(start, len_bytes));
        let module = module.ok_or("margay.modules: longer than what was loaded")?;
        modules
            .try_push(module)
            .map_err(|_| "margay.modules: too many")?;
        start = module.end.align_up(PAGE);
    }
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Phys;

    fn of(cmdline: &str) -> Result<Vec<(u64, u64)>, &'static str> {
        let only = PhysRange::new(Phys(0x8000), 0x3000);
        let modules = of_one(only, cmdline)?;
        Ok(modules
            .iter()
            .map(|module| (module.start.0, module.len_bytes()))
            .collect())
    }

    #[test]
    fn one_module_is_itself() {
        assert_eq!(of("a b=c"), Ok(vec![(0x8000, 0x3000)]));
    }

    #[test]
    fn several_begin_at_pages() {
        let both = Ok(vec![(0x8000, 0x1234), (0xa000, 0x1000)]);
        assert_eq!(of("a margay.modules=4660,4096 -- b"), both);
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        for bad in ["", "x", "0", "4096,,1", "12289", "4096,8193", "12288,1"] {
            assert!(of(&format!("margay.modules={bad}")).is_err(), "{bad}");
        }
        let pages = ["1"; 4].join(",");
        assert!(of(&format!("margay.modules={pages}")).is_err());
    }
}
