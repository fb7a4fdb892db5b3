//! What a call has left: instructions are counted by a hook, library functions pay for the work they do.

use std::cell::Cell;

use mlua::Lua;

/// Instructions between two looks at the budget.
pub(super) const STRIDE: u32 = 100;

/// Memory a script may fill before filling more costs fuel: copying it around takes time that
/// instructions do not show.
const FREE_GROWTH: usize = 256 << 10;

#[derive(Default)]
pub(super) struct Budget {
    left: Cell<u64>,
    exhausted: Cell<bool>,
    /// Memory in use when the script started.
    baseline: Cell<usize>,
}

impl Budget {
    pub(super) fn refill(&self, fuel: u64, used_memory: usize) {
        self.left.set(fuel);
        self.exhausted.set(false);
        self.baseline.set(used_memory);
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.get()
    }

    /// Takes fuel; false when there is none left, now and ever after.
    pub(super) fn spend(&self, fuel: u64) -> bool {
        match self.left.get().checked_sub(fuel) {
            Some(left) if !self.exhausted.get() => {
                self.left.set(left);
                true
            }
            _ => {
                self.exhausted.set(true);
                false
            }
        }
    }

    /// Pays for one stride of instructions.
    pub(super) fn spend_stride(&self, lua: &Lua) -> mlua::Result<()> {
        let grown = lua.used_memory().saturating_sub(self.baseline.get());
        let copying = grown.saturating_sub(FREE_GROWTH) / 32;
        self.settle(u64::from(STRIDE) + copying as u64)
    }

    /// Pays for the start of a walk through a table: it may first have to pass by many empty places.
    pub(super) fn spend_walk(&self, lua: &Lua) -> mlua::Result<()> {
        let used = lua.used_memory();
        let grown = used.saturating_sub(self.baseline.get());
        self.settle((grown / 512 + used / 4096) as u64 + 1)
    }

    /// Pays for work that is known beforehand.
    pub(super) fn spend_steps(&self, steps: u64) -> mlua::Result<()> {
        self.settle(steps.saturating_add(1))
    }

    fn settle(&self, fuel: u64) -> mlua::Result<()> {
        if self.spend(fuel) { Ok(()) } else { Err(stopped()) }
    }
}

pub(super) fn stopped() -> mlua::Error {
    mlua::Error::runtime("too many instructions")
}
