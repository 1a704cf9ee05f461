package image

import "slices"

// Without returns the snapshot of a node that lacks the images for which gone is true: they are not
// listed, and the space that only they reach is available. It does not change s.
func Without(s Snapshot, gone func(id string) bool) Snapshot {
	var ids []string
	images := make([]Image, 0, len(s.Images))
	for _, i := range s.Images {
		if gone(i.ID) {
			ids = append(ids, i.ID)
		} else {
			images = append(images, i)
		}
	}
	freed := s.Disk.Available()
	for _, one := range Frees(s.Graph, s.Images, ids) {
		freed = freed.Add(one)
	}
	s.Images = images
	s.Disk.AvailableBytes = max(s.Disk.AvailableBytes, min(freed.Bytes, s.Disk.CapacityBytes))
	s.Disk.InodesAvailable = max(s.Disk.InodesAvailable, min(freed.Inodes, s.Disk.Inodes))
	return s
}

// Frees returns what each image of ids frees if they are removed in this order. Unreferenced nodes do not
// count.
func Frees(g Graph, images []Image, ids []string) []Size {
	m, roots := held(g), make(map[string][]NodeID, len(ids))
	for _, id := range ids {
		roots[id] = nil
	}
	for i := range images {
		if of, goes := roots[images[i].ID]; goes {
			roots[images[i].ID] = slices.Concat(of, images[i].Roots)
		} else {
			m.reach(images[i].Roots)
		}
	}
	frees := make([]Size, len(ids))
	for n := len(ids) - 1; n >= 0; n-- { // put back, the last one first: see attribute
		frees[n] = m.reach(roots[ids[n]]).size()
	}
	return frees
}
