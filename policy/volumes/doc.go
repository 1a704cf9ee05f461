// Package volumes finds storage objects that were left behind: released PersistentVolumes
// with the reclaim policy Delete that no provisioner deletes, and VolumeAttachments and
// CSINodes of Nodes that are gone.
//
// All of them are reported. A volume is deleted only for drivers that Config names, and only
// if all of this holds: the driver made it, its claim is gone and has no successor of its
// name, nothing else refers to the data, and it was released at least a day ago. If any of
// this is unknown, the volume is kept.
//
// Deleted data cannot be restored. So the executor of a [gc.DeleteVolume] judges all of that
// once more, on what live reads return ([Collector.Confirm]).
//
// If a driver cannot serve, it is left alone for a while, with all its volumes. A volume that
// the driver does not delete is tried again, each time after a longer pause.
package volumes
