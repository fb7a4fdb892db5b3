//! Controllers, grouped by what they are about and listed in one table.
