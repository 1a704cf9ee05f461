package cluster

import (
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/csrs"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/jobs"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/policy/pods"
	"github.com/ebb-agent/ebb/policy/volumes"
	"github.com/ebb-agent/ebb/runtime/kube/fields"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

var (
	typePod        = typeKey{"v1", "Pod"}
	typeNode       = typeKey{"v1", "Node"}
	typeNamespace  = typeKey{"v1", "Namespace"}
	typeJob        = typeKey{"batch/v1", "Job"}
	typeCSR        = typeKey{"certificates.k8s.io/v1", "CertificateSigningRequest"}
	typeLease      = typeKey{"coordination.k8s.io/v1", "Lease"}
	typeAttachment = typeKey{"storage.k8s.io/v1", "VolumeAttachment"}
	// One of these is followed: what the API server prefers.
	typePodRequest      = typeKey{"certificates.k8s.io/v1", "PodCertificateRequest"}
	typePodRequestBeta  = typeKey{"certificates.k8s.io/v1beta1", "PodCertificateRequest"}
	typePodRequestAlpha = typeKey{"certificates.k8s.io/v1alpha1", "PodCertificateRequest"}
	typeVolume          = typeKey{"v1", "PersistentVolume"}
	typeClaim           = typeKey{"v1", "PersistentVolumeClaim"}
	typeCSINode         = typeKey{"storage.k8s.io/v1", "CSINode"}
	typeCSIDriver       = typeKey{"storage.k8s.io/v1", "CSIDriver"}
	typeClass           = typeKey{"storage.k8s.io/v1", "StorageClass"}
)

// fieldsOf says what of a type is wanted beside metadata.
var fieldsOf = map[typeKey]metadata.Fields{
	typePod: fields.Pod, typeNode: fields.Node, typeJob: fields.Job, typeCSR: fields.Request, typeLease: fields.Lease,
	typePodRequest: fields.PodRequest, typePodRequestBeta: fields.PodRequest, typePodRequestAlpha: fields.PodRequest,
	typeNamespace: fields.Namespace,
	typeVolume:    fields.Volume, typeClaim: fields.Claim, typeAttachment: fields.Attachment, typeCSINode: fields.Drivers, typeClass: fields.Class,
}

// ownFields are what a collector wants instead.
var ownFields = map[gc.Collector]map[typeKey]metadata.Fields{
	nodes.Name: {typeNode: fields.NodeLife, typeAttachment: fields.AttachedTo},
}

func fieldsFor(key typeKey, name gc.Collector) metadata.Fields {
	if own := ownFields[name][key]; own != nil {
		return own
	}
	return fieldsOf[key]
}

// register describes a collector whose settings are of type S.
func register[S any, C interface {
	gc.Interface
	Configure(now time.Time, settings S)
}](name gc.Collector, create func(S) C, settings func(config.Config) S, rights func(config.Collectors, bool) []Right, types ...typeKey) registration {
	return registration{
		name: name, types: types, rights: rights,
		create:    func(c config.Config) gc.Interface { return create(settings(c)) },
		configure: func(now time.Time, of gc.Interface, c config.Config) { of.(C).Configure(now, settings(c)) },
	}
}

// registry has all collectors, in the order in which they are asked.
var registry = []registration{
	register(pods.Name, pods.New, config.Config.PodPolicy, podRights, typePod, typeNode),
	register(jobs.Name, jobs.New, func(c config.Config) jobs.Config { return c.Collectors.Jobs.Policy() }, deletes("batch", "jobs"), typeJob, typeNamespace),
	register(csrs.Name, csrs.New, func(c config.Config) csrs.Config { return c.Collectors.CSRs.Policy() }, deletes("certificates.k8s.io", "certificatesigningrequests", "podcertificaterequests"),
		typeCSR, typePodRequest, typePodRequestBeta, typePodRequestAlpha),
	register(leases.Name, leases.New, func(c config.Config) leases.Config { return c.Collectors.Leases.Policy(c.LeaderElection) }, leaseRights, typeLease, typeNode),
	register(nodes.Name, nodes.New, func(c config.Config) nodes.Config { return c.Collectors.Nodes.Policy() }, nodeRights, typeNode, typeLease, typeAttachment),
	register(volumes.Name, volumes.New, config.Config.VolumePolicy, volumeRights,
		typeVolume, typeClaim, typeAttachment, typeCSINode, typeCSIDriver, typeClass, typeNode, typeLease),
}

// collectorNames are those of all collectors.
func collectorNames() []gc.Collector {
	names := []gc.Collector{gc.Owners}
	for _, r := range registry {
		names = append(names, r.name)
	}
	return names
}
