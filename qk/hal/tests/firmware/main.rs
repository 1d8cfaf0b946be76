//! What the boot code makes of memory maps and ACPI tables: made-up ones, damaged ones, and those of real machines.

mod build;
mod hostile;
mod machines;
mod multiboot2;
mod tables;
