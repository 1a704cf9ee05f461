package cluster

import (
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/csrs"
	"github.com/ebb-agent/ebb/policy/jobs"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/pods"
	"github.com/ebb-agent/ebb/runtime/kube/fields"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

var (
	typePod        = typeKey{"v1", "Pod"}
	typeNode       = typeKey{"v1", "Node"}
	typeJob        = typeKey{"batch/v1", "Job"}
	typeCSR        = typeKey{"certificates.k8s.io/v1", "CertificateSigningRequest"}
	typeLease      = typeKey{"coordination.k8s.io/v1", "Lease"}
	typePodRequest = typeKey{"certificates.k8s.io/v1beta1", "PodCertificateRequest"}
)

// fieldsOf says what of a type is wanted beside metadata.
var fieldsOf = map[typeKey]metadata.Fields{
	typePod: fields.Pod, typeNode: fields.Node, typeJob: fields.Job, typeCSR: fields.Request, typeLease: fields.Lease, typePodRequest: fields.PodRequest,
}

// offers are all there are, in the order in which they are asked.
var offers = []offer{
	{pods.Name, []typeKey{typePod, typeNode},
		func(c config.Config) collector { return pods.New(c.Collectors.Pods.Policy()) },
		func(now time.Time, of collector, c config.Config) {
			of.(*pods.Collector).Configure(now, c.Collectors.Pods.Policy())
		}},
	{jobs.Name, []typeKey{typeJob},
		func(c config.Config) collector { return jobs.New(c.Collectors.Jobs.Policy()) },
		func(now time.Time, of collector, c config.Config) {
			of.(*jobs.Collector).Configure(now, c.Collectors.Jobs.Policy())
		}},
	{csrs.Name, []typeKey{typeCSR, typePodRequest},
		func(c config.Config) collector { return csrs.New(c.Collectors.CSRs.Policy()) },
		func(now time.Time, of collector, c config.Config) {
			of.(*csrs.Collector).Configure(now, c.Collectors.CSRs.Policy())
		}},
	{leases.Name, []typeKey{typeLease, typeNode},
		func(c config.Config) collector { return leases.New(c.Collectors.Leases.Policy(c.LeaderElection)) },
		func(now time.Time, of collector, c config.Config) {
			of.(*leases.Collector).Configure(now, c.Collectors.Leases.Policy(c.LeaderElection))
		}},
}
