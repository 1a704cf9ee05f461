// Package volumes finds what is left of storage: PersistentVolumes that were released, whose
// reclaim policy is Delete, and that nobody deletes; VolumeAttachments and CSINodes of Nodes
// that are gone.
//
// All of it is reported. A volume is deleted only for drivers that Config names, and only
// if everything that is known speaks for it: the driver made it, its claim is gone and has
// no successor of its name, nobody else refers to the data, and it has been released for a
// day or longer. What is not known keeps it. Data cannot be made again: whoever carries a
// [gc.DeleteVolume] out has all of that judged once more, on what a live read returns
// ([Collector.Confirm]).
//
// A driver that cannot serve is left alone for a while, with all its volumes. A volume that
// it will not delete is tried again ever more seldom.
package volumes
