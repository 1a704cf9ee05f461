package fields

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/volumes"
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// Volume reads a core/v1 PersistentVolume into a [volumes.Volume].
func Volume(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	var v volumes.Volume
	if err := p.annotations(&v); err != nil {
		return nil, err
	}
	if err := volumeSpec(p.spec, &v); err != nil {
		return nil, err
	}
	phase, since, err := protobuf.Pair(p.status, 1, 4) // lastPhaseTransitionTime
	if err != nil {
		return nil, err
	}
	v.Phase = string(phase)
	if v.Since, err = protobuf.Time(since); err != nil {
		return nil, err
	}
	return v, nil
}

// annotations by which provisioners write down what they made.
func (p parts) annotations(v *volumes.Volume) error {
	of := map[string]*string{
		"pv.kubernetes.io/provisioned-by":                            &v.ProvisionedBy,
		"pv.kubernetes.io/migrated-to":                               &v.MigratedTo,
		"volume.kubernetes.io/provisioner-deletion-secret-name":      &v.Secret.Name,
		"volume.kubernetes.io/provisioner-deletion-secret-namespace": &v.Secret.Namespace,
	}
	return pairs(p.metadata, 12, func(key, value []byte) {
		if to := of[string(key)]; to != nil {
			*to = string(value)
		}
	})
}

func volumeSpec(spec []byte, v *volumes.Volume) error {
	var source, claim, policy []byte
	err := protobuf.Each(spec, func(n protowire.Number, t protowire.Type, b []byte) int {
		switch n {
		case 2: // persistentVolumeSource
			return protobuf.Take(t, b, &source)
		case 4: // claimRef
			return protobuf.Take(t, b, &claim)
		case 5: // persistentVolumeReclaimPolicy
			return protobuf.Take(t, b, &policy)
		}
		return 0
	})
	if err != nil {
		return err
	}
	v.Policy = string(policy)
	if v.Claim.Namespace, v.Claim.Name, v.Claim.UID, err = reference(claim); err != nil {
		return err
	}
	return volumeSource(source, v)
}

// volumeSource reads where the data is.
func volumeSource(source []byte, v *volumes.Volume) error {
	var csi []byte
	err := protobuf.Each(source, func(n protowire.Number, t protowire.Type, b []byte) int {
		if n == 22 {
			return protobuf.Take(t, b, &csi)
		}
		return 0
	})
	if err != nil {
		return err
	}
	if csi == nil {
		v.Other = string(source)
		return nil
	}
	driver, handle, err := protobuf.Pair(csi, 1, 2)
	v.Driver, v.Handle = string(driver), string(handle)
	return err
}

// reference reads namespace, name and UID of an ObjectReference.
func reference(message []byte) (namespace, name, uid string, err error) {
	var of [3][]byte
	err = protobuf.Each(message, func(n protowire.Number, t protowire.Type, b []byte) int {
		if n >= 2 && n <= 4 {
			return protobuf.Take(t, b, &of[n-2])
		}
		return 0
	})
	return string(of[0]), string(of[1]), string(of[2]), err
}

// Claim reads a core/v1 PersistentVolumeClaim into a [volumes.Claim].
func Claim(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	name, err := take(p.spec, 3) // volumeName
	return or(volumes.Claim{Volume: string(name)}, err)
}

// Attachment reads a storage.k8s.io/v1 VolumeAttachment into a [volumes.Attachment].
func Attachment(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	source, node, err := protobuf.Pair(p.spec, 2, 3) // source, nodeName
	if err != nil {
		return nil, err
	}
	a := volumes.Attachment{Node: string(node)}
	name, inline, err := protobuf.Pair(source, 1, 2) // persistentVolumeName, inlineVolumeSpec
	if err != nil {
		return nil, err
	}
	a.Volume = string(name)
	var v volumes.Volume
	if err := volumeSpec(inline, &v); err != nil {
		return nil, err
	}
	a.Handle = v.Handle
	return a, nil
}

// Drivers reads a storage.k8s.io/v1 CSINode into a [volumes.Drivers].
func Drivers(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	var d volumes.Drivers
	err = pairs(p.spec, 1, func(name, _ []byte) { d = append(d, string(name)) })
	return or(d, err)
}

// Class reads the provisioner of a storage.k8s.io/v1 StorageClass.
func Class(message []byte) (any, error) {
	provisioner, err := take(message, 2)
	return or(volumes.Class(provisioner), err)
}

// Uses reads from a core/v1 Pod the claims that it uses, into a [volumes.Uses].
func Uses(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	var u volumes.Uses
	name, err := take(p.metadata, 1)
	if err != nil {
		return nil, err
	}
	phase, err := take(p.status, 1)
	if err != nil {
		return nil, err
	}
	u.Ended = string(phase) == "Succeeded" || string(phase) == "Failed"
	err = messages(p.spec, func(n protowire.Number, volume []byte) error {
		if n != 1 {
			return nil
		}
		claim, err := claimOf(volume, string(name))
		if claim != "" {
			u.Claims = append(u.Claims, claim)
		}
		return err
	})
	return or(u, err)
}

// claimOf is the name of the claim that a volume of a Pod is; empty: it is something else.
func claimOf(volume []byte, pod string) (string, error) {
	name, err := take(volume, 1)
	if err != nil {
		return "", err
	}
	source, err := take(volume, 2)
	if err != nil {
		return "", err
	}
	claim, err := take(source, 10) // persistentVolumeClaim
	if err != nil {
		return "", err
	}
	ephemeral, err := take(source, 29)
	switch {
	case err != nil:
		return "", err
	case ephemeral != nil: // its claim has the Pod's name and its own
		return pod + "-" + string(name), nil
	}
	of, err := take(claim, 1)
	return string(of), err
}

// Secret reads the data of a core/v1 Secret.
func Secret(message []byte) (any, error) {
	data := map[string]string{}
	err := pairs(message, 2, func(key, value []byte) { data[string(key)] = string(value) })
	return or(data, err)
}

// or nothing, if there is an error.
func or(v any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}
