package fields

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/volumes"
)

// Volume reads a core/v1 PersistentVolume into a [volumes.Volume].
func Volume(message []byte) (any, error) {
	var r reader
	p := r.parts(message)
	// Field 4 is lastPhaseTransitionTime.
	v := volumes.Volume{Phase: r.text(p.status, 1), Since: r.time(r.take(p.status, 4))}
	// Provisioners record what they created in these annotations.
	of := map[string]*string{
		"pv.kubernetes.io/provisioned-by":                            &v.ProvisionedBy,
		"pv.kubernetes.io/migrated-to":                               &v.MigratedTo,
		"volume.kubernetes.io/provisioner-deletion-secret-name":      &v.Secret.Name,
		"volume.kubernetes.io/provisioner-deletion-secret-namespace": &v.Secret.Namespace,
	}
	r.pairs(p.metadata, 12, func(key, value []byte) {
		if to := of[string(key)]; to != nil {
			*to = string(value)
		}
	})
	r.volumeSpec(p.spec, &v)
	return r.result(v)
}

func (r *reader) volumeSpec(spec []byte, v *volumes.Volume) {
	source, claim := r.take(spec, 2), r.take(spec, 4)  // persistentVolumeSource, claimRef
	r.pairs(spec, 1, func(resource, quantity []byte) { // capacity
		if string(resource) == "storage" {
			v.Size = r.text(quantity, 1)
		}
	})
	v.Policy = r.text(spec, 5) // persistentVolumeReclaimPolicy
	v.Claim.Namespace, v.Claim.Name, v.Claim.UID = r.text(claim, 2), r.text(claim, 3), r.text(claim, 4)
	csi := r.take(source, 22)
	if csi == nil {
		v.Other = string(source)
		return
	}
	v.Driver, v.Handle = r.text(csi, 1), r.text(csi, 2)
}

// Claim reads a core/v1 PersistentVolumeClaim into a [volumes.Claim].
func Claim(message []byte) (any, error) {
	var r reader
	return r.result(volumes.Claim{Volume: r.text(r.parts(message).spec, 3)}) // volumeName
}

// Attachment reads a storage.k8s.io/v1 VolumeAttachment into a [volumes.Attachment].
func Attachment(message []byte) (any, error) {
	var r reader
	spec := r.parts(message).spec
	source := r.take(spec, 2)
	var inline volumes.Volume
	r.volumeSpec(r.take(source, 2), &inline) // inlineVolumeSpec
	return r.result(volumes.Attachment{Node: r.text(spec, 3), Volume: r.text(source, 1), Handle: inline.Handle})
}

// Drivers reads a storage.k8s.io/v1 CSINode into a [volumes.Drivers].
func Drivers(message []byte) (any, error) {
	var r reader
	var d volumes.Drivers
	r.pairs(r.parts(message).spec, 1, func(name, _ []byte) { d = append(d, string(name)) })
	return r.result(d)
}

// Class reads the provisioner of a storage.k8s.io/v1 StorageClass.
func Class(message []byte) (any, error) {
	var r reader
	return r.result(volumes.Class(r.text(message, 2)))
}

// Uses reads from a core/v1 Pod the claims that it uses, into a [volumes.Uses].
func Uses(message []byte) (any, error) {
	var r reader
	p := r.parts(message)
	name, phase := r.text(p.metadata, 1), r.text(p.status, 1)
	u := volumes.Uses{Ended: phase == "Succeeded" || phase == "Failed"}
	r.messages(p.spec, func(n protowire.Number, volume []byte) {
		if n != 1 {
			return
		}
		if claim := r.claimOf(volume, name); claim != "" {
			u.Claims = append(u.Claims, claim)
		}
	})
	return r.result(u)
}

// claimOf returns the name of the claim that a volume of a Pod uses, or "" if the volume is not a
// claim.
func (r *reader) claimOf(volume []byte, pod string) string {
	source := r.take(volume, 2)
	if r.take(source, 29) != nil { // ephemeral: its claim is named POD-VOLUME
		return pod + "-" + r.text(volume, 1)
	}
	return r.text(r.take(source, 10), 1) // persistentVolumeClaim
}

// Secret reads the data of a core/v1 Secret.
func Secret(message []byte) (any, error) {
	var r reader
	data := map[string]string{}
	r.pairs(message, 2, func(key, value []byte) { data[string(key)] = string(value) })
	return r.result(data)
}
