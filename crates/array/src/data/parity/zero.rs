//! Zeroes in parity arrays: zero data has zero parity, so full rows are zeroed member by member.

use brindle_members::lock::Hold;
use brindle_volume::{VolumeError, ZeroOptions};

use super::Parity;
use super::window::RowWindow;
use super::write::Cuts;

/// Bytes of each member that are zeroed at a time, about.
const STEP: u64 = 256 << 20;

impl Parity {
    pub(crate) async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        options: ZeroOptions,
    ) -> Result<(), VolumeError> {
        let cuts = Cuts::of(&self.map, offset, len);
        if options.fast_only && (cuts.head + cuts.tail > 0 || !self.core.zeroes_fast(options)) {
            return Err(VolumeError::Unsupported);
        }
        let _writing = self.core.begin(offset, len).await?;
        self.write_zero_part(offset, cuts.head, options.fua).await?;
        self.zero_full_rows(offset + cuts.head, cuts.full, options).await?;
        self.write_zero_part(offset + cuts.head + cuts.full, cuts.tail, options.fua).await?;
        if options.fua && cuts.full > 0 { self.core.flush_members().await } else { Ok(()) }
    }

    /// Full rows are zeroed where that frees space on every member; the rest stays as it is.
    pub(crate) async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let cuts = Cuts::of(&self.map, offset, len);
        let options = ZeroOptions::default();
        if cuts.full == 0 || !self.core.limits.discard || !self.core.zeroes_fast(options) {
            return Ok(());
        }
        let _writing = self.core.begin(offset, len).await?;
        self.zero_full_rows(offset + cuts.head, cuts.full, options).await
    }

    /// Has whole rows hold zeroes. Nothing of what was there is wanted any more.
    pub(crate) async fn put_zeroes(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.zero_full_rows(offset, len, ZeroOptions::default()).await
    }

    async fn zero_full_rows(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        let first = offset / self.map.row_data_bytes();
        let end = first + len / self.map.row_data_bytes();
        let step = (STEP / self.map.chunk()).max(1);
        for row in (first..end).step_by(step as usize) {
            let rows = row..(row + step).min(end);
            let _held = self.locks.acquire(rows.clone(), Hold::Exclusive).await;
            rows.clone().try_for_each(|row| self.check_row(row))?;
            let window = RowWindow { rows, cols: 0..self.map.chunk() };
            self.commit_zeroes(&window, options).await?;
            self.settle_window(&window)?;
        }
        Ok(())
    }

    /// Writes zeroes to a part of a row.
    async fn write_zero_part(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        let zeroes = self.core.zeroes();
        for at in (0..len).step_by(zeroes.len()) {
            let step = (len - at).min(zeroes.len() as u64) as usize;
            self.write_part(offset + at, zeroes.slice(0..step).as_ref(), fua, &self.streams.none()).await?;
        }
        Ok(())
    }
}
