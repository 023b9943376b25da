//! Kinds of content that a device may have.

use core::fmt;

/// A format that may stand on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signature {
    /// Linux ext2, ext3 or ext4.
    Ext,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// GUID partition table, primary or backup.
    Gpt,
    /// DOS partition table.
    Mbr,
    /// LVM physical volume.
    LvmPv,
    /// LUKS encryption, version 1 or 2.
    Luks,
    /// Member of a ZFS pool.
    Zfs,
    /// Member of a pool of Brindle's.
    Pool,
    /// Intel Matrix Storage RAID.
    Imsm,
    /// SNIA DDF RAID.
    Ddf,
    /// RAID of a BIOS or a cheap controller: Adaptec, HighPoint, LSI, NVIDIA or Promise.
    BiosRaid,
    /// Linux swap space.
    Swap,
    /// NTFS.
    Ntfs,
    /// ReFS.
    Refs,
    /// FAT12, FAT16 or FAT32.
    Vfat,
    /// exFAT.
    ExFat,
    /// BitLocker encryption.
    BitLocker,
    /// SquashFS.
    Squashfs,
    /// EROFS.
    Erofs,
    /// ISO 9660.
    Iso9660,
    /// UDF.
    Udf,
    /// F2FS.
    F2fs,
    /// ReiserFS or Reiser4.
    Reiserfs,
    /// JFS.
    Jfs,
    /// GFS2.
    Gfs2,
    /// OCFS2.
    Ocfs2,
    /// NILFS2.
    Nilfs2,
    /// UFS.
    Ufs,
    /// APFS container.
    Apfs,
    /// HFS+ or HFSX.
    Hfs,
    /// bcache backing or cache device.
    Bcache,
    /// bcachefs.
    Bcachefs,
    /// DRBD with internal metadata.
    Drbd,
    /// Stratis pool member.
    Stratis,
    /// dm-integrity.
    DmIntegrity,
    /// dm-verity.
    DmVerity,
    /// VDO.
    Vdo,
    /// Ceph BlueStore.
    BlueStore,
    /// Disk of Oracle ASM.
    OracleAsm,
    /// Extent of a VMware VMFS volume.
    Vmfs,
    /// Linux md RAID of any version.
    MdRaid,
}

impl Signature {
    /// The name for messages: `ext2/3/4 file system`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ext => "ext2/3/4 file system",
            Self::Xfs => "XFS file system",
            Self::Btrfs => "Btrfs file system",
            Self::Gpt => "GPT partition table",
            Self::Mbr => "DOS partition table",
            Self::LvmPv => "LVM physical volume",
            Self::Luks => "LUKS encrypted volume",
            Self::Zfs => "ZFS pool member",
            Self::Pool => "Brindle pool member",
            Self::Imsm => "Intel IMSM RAID member",
            Self::Ddf => "DDF RAID member",
            Self::BiosRaid => "BIOS RAID member",
            Self::Swap => "swap space",
            Self::Ntfs => "NTFS file system",
            Self::Refs => "ReFS file system",
            Self::Vfat => "FAT file system",
            Self::ExFat => "exFAT file system",
            Self::BitLocker => "BitLocker encrypted volume",
            Self::Squashfs => "SquashFS file system",
            Self::Erofs => "EROFS file system",
            Self::Iso9660 => "ISO 9660 file system",
            Self::Udf => "UDF file system",
            Self::F2fs => "F2FS file system",
            Self::Reiserfs => "ReiserFS file system",
            Self::Jfs => "JFS file system",
            Self::Gfs2 => "GFS2 file system",
            Self::Ocfs2 => "OCFS2 file system",
            Self::Nilfs2 => "NILFS2 file system",
            Self::Ufs => "UFS file system",
            Self::Apfs => "APFS container",
            Self::Hfs => "HFS+ file system",
            Self::Bcache => "bcache device",
            Self::Bcachefs => "bcachefs file system",
            Self::Drbd => "DRBD device",
            Self::Stratis => "Stratis pool member",
            Self::DmIntegrity => "dm-integrity device",
            Self::DmVerity => "dm-verity device",
            Self::Vdo => "VDO device",
            Self::BlueStore => "Ceph BlueStore device",
            Self::OracleAsm => "Oracle ASM disk",
            Self::Vmfs => "VMware VMFS extent",
            Self::MdRaid => "md RAID member",
        }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
