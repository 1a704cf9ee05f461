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
	// Only the version that the API server prefers is followed.
	typePodRequest      = typeKey{"certificates.k8s.io/v1", "PodCertificateRequest"}
	typePodRequestBeta  = typeKey{"certificates.k8s.io/v1beta1", "PodCertificateRequest"}
	typePodRequestAlpha = typeKey{"certificates.k8s.io/v1alpha1", "PodCertificateRequest"}
	typeVolume          = typeKey{"v1", "PersistentVolume"}
	typeClaim           = typeKey{"v1", "PersistentVolumeClaim"}
	typeCSINode         = typeKey{"storage.k8s.io/v1", "CSINode"}
	typeCSIDriver       = typeKey{"storage.k8s.io/v1", "CSIDriver"}
	typeClass           = typeKey{"storage.k8s.io/v1", "StorageClass"}
)

// watched is a type that a collector watches, and the fields that it needs beside metadata; nil:
// none.
type watched struct {
	typeKey
	fields metadata.Fields
}

// registration is all that the controller knows of a collector.
type registration struct {
	name  gc.Collector
	types []watched
	// rights returns what the collector needs beside reading its types, if it acts and if it does
	// not.
	rights func(c config.Collectors, acts bool) []Right
	// confirmed: after a restore of etcd the collector requests nothing until a person has
	// confirmed the state. Its deletions reach beyond the API object. In a cluster that came back
	// from a backup, what is in use looks unused.
	confirmed bool
	factory
}

// factory creates a collector, and applies another configuration to it.
type factory struct {
	create    func(c config.Config) gc.Interface
	configure func(now time.Time, of gc.Interface, c config.Config)
}

// makes returns the factory of a collector whose settings are of type S.
func makes[S any, C interface {
	gc.Interface
	Configure(now time.Time, settings S)
}](create func(S) C, settings func(config.Config) S) factory {
	return factory{
		create:    func(c config.Config) gc.Interface { return create(settings(c)) },
		configure: func(now time.Time, of gc.Interface, c config.Config) { of.(C).Configure(now, settings(c)) },
	}
}

// registry has all collectors but that of owners, in the order in which they are asked.
var registry = []registration{
	{
		name:    pods.Name,
		types:   []watched{{typePod, fields.Pod}, {typeNode, fields.Node}},
		rights:  podRights,
		factory: makes(pods.New, config.Config.PodPolicy),
	},
	{
		name:    jobs.Name,
		types:   []watched{{typeJob, fields.Job}, {typeNamespace, fields.Namespace}},
		rights:  deletes("batch", "jobs"),
		factory: makes(jobs.New, func(c config.Config) jobs.Config { return c.Collectors.Jobs.Policy() }),
	},
	{
		name:    csrs.Name,
		types:   []watched{{typeCSR, fields.Request}, {typePodRequest, fields.PodRequest}, {typePodRequestBeta, fields.PodRequest}, {typePodRequestAlpha, fields.PodRequest}},
		rights:  deletes("certificates.k8s.io", "certificatesigningrequests", "podcertificaterequests"),
		factory: makes(csrs.New, func(c config.Config) csrs.Config { return c.Collectors.CSRs.Policy() }),
	},
	{
		name:    leases.Name,
		types:   []watched{{typeLease, fields.Lease}, {typeNode, fields.Node}},
		rights:  leaseRights,
		factory: makes(leases.New, func(c config.Config) leases.Config { return c.Collectors.Leases.Policy(c.LeaderElection) }),
	},
	{
		name:      nodes.Name,
		types:     []watched{{typeNode, fields.NodeLife}, {typeLease, fields.Lease}, {typeAttachment, fields.AttachedTo}},
		rights:    nodeRights,
		confirmed: true,
		factory:   makes(nodes.New, func(c config.Config) nodes.Config { return c.Collectors.Nodes.Policy() }),
	},
	{
		name: volumes.Name,
		types: []watched{{typeVolume, fields.Volume}, {typeClaim, fields.Claim}, {typeAttachment, fields.Attachment}, {typeCSINode, fields.Drivers}, {typeCSIDriver, nil},
			{typeClass, fields.Class}, {typeNode, fields.Node}, {typeLease, fields.Lease}},
		rights:    volumeRights,
		confirmed: true,
		factory:   makes(volumes.New, config.Config.VolumePolicy),
	},
}

// confirmed returns the collectors that wait for a person after etcd was restored.
func confirmed() (names []gc.Collector) {
	for _, r := range registry {
		if r.confirmed {
			names = append(names, r.name)
		}
	}
	return names
}

// watches returns the fields of a type, and whether the collector watches it.
func (r registration) watches(key typeKey) (metadata.Fields, bool) {
	for _, w := range r.types {
		if w.typeKey == key {
			return w.fields, true
		}
	}
	return nil, false
}

// collectorNames returns the names of all collectors, that of owners first.
func collectorNames() []gc.Collector {
	names := []gc.Collector{gc.Owners}
	for _, r := range registry {
		names = append(names, r.name)
	}
	return names
}
