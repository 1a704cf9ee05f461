package main

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/ebb-agent/ebb/bench/contender"
)

const (
	namespaces = 20
	// patience is how long an ended object is kept before it is due.
	patience = time.Hour
)

// kind describes the objects that one collector collects.
type kind struct {
	name, resource string
	// make returns the i-th object, which is due at that time.
	make func(i int, due time.Time) runtime.Object
	// timed are settings of ebb's collector with which an object is due at that time. With all,
	// every object that has ended is due, as for the peer's collector.
	timed, all map[string]any
	// peer runs only the peer's collector of this kind, with or without the client's limits.
	peer func(b *fixture, limited bool) contender.Contender
	many func(o options) int // objects when memory is measured
	slow int                 // objects with the client's limits
	// keeps is how many of the ended objects the collectors keep.
	keeps int
}

var kinds = []kind{
	{
		name: "pods", resource: "pods", make: pod, many: func(o options) int { return o.pods }, slow: 600, keeps: 1,
		timed: map[string]any{"mode": "enforce", "keep": -1, "succeeded": map[string]any{"after": patience.String()}},
		all:   map[string]any{"mode": "enforce", "keep": 1},
		peer: func(b *fixture, limited bool) contender.Contender {
			return b.manager(limited, "pod-garbage-collector", "pod-garbage-collector-controller", "--terminated-pod-gc-threshold=1")
		},
	},
	{
		name: "jobs", resource: "jobs", make: job, many: func(o options) int { return o.pods }, slow: 600,
		timed: map[string]any{"mode": "enforce"}, all: map[string]any{"mode": "enforce"},
		peer: func(b *fixture, limited bool) contender.Contender {
			return b.manager(limited, "ttl-after-finished-controller", "ttl-after-finished-controller")
		},
	},
	{
		name: "csrs", resource: "certificatesigningrequests", make: csr, many: func(o options) int { return o.csrs }, slow: 300,
		timed: map[string]any{"mode": "enforce"}, all: map[string]any{"mode": "enforce"},
		peer: (*fixture).requestCleaner,
	},
}

func meta(name string, i int, namespaced bool) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name: name, UID: types.UID(uuid.NewUUID()), Labels: map[string]string{"app": "bench"},
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(i) * time.Second)),
	}
	if namespaced {
		m.Namespace = fmt.Sprint("bench-", i%namespaces)
	}
	return m
}

func namespace(i int) runtime.Object {
	return contender.Namespace(meta(fmt.Sprint("bench-", i), i, false))
}

// nodeName returns the node of the i-th Pod. There are as many Nodes as namespaces.
func nodeName(i int) string { return fmt.Sprint("bench-node-", i%namespaces) }

func node(i int) runtime.Object {
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: meta(nodeName(i), i, false),
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

var (
	podSpec = corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "main", Image: "registry.example/service:1", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"/bin/report", "--nightly", "--all"},
			TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			Env: []corev1.EnvVar{{Name: "REGION", Value: "north"}, {Name: "STAGE", Value: "production"}},
		}},
		RestartPolicy: corev1.RestartPolicyNever, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: corev1.DefaultSchedulerName,
		SecurityContext: &corev1.PodSecurityContext{}, TerminationGracePeriodSeconds: new(int64(30)),
	}
)

// pod returns a Pod that has succeeded, or a pending one if it stays.
func pod(i int, due time.Time) runtime.Object {
	at := metav1.NewTime(due.Add(-patience))
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta(fmt.Sprintf("nightly-report-%08d-abcde", i), i, true), Spec: podSpec,
		Status: corev1.PodStatus{
			Phase: corev1.PodSucceeded, QOSClass: corev1.PodQOSBestEffort, HostIP: "10.0.0.1", PodIP: "10.1.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at, Reason: "PodCompleted"}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", Image: "registry.example/service:1",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: at, FinishedAt: at}},
			}},
		},
	}
	p.Spec.NodeName = nodeName(i)
	if stays(i) {
		p.Status.Phase, p.Status.ContainerStatuses = corev1.PodPending, nil
	}
	return p
}

// key returns the namespace and name of the i-th object.
func (k kind) key(i int) string {
	o := k.make(i, time.Time{}).(metav1.Object)
	return o.GetNamespace() + "/" + o.GetName()
}

// stays reports whether the i-th object is never due.
func stays(i int) bool { return i%10 == 7 }

// job returns a Job that has completed, or one that has not if it stays.
func job(i int, due time.Time) runtime.Object {
	at, m := metav1.NewTime(due.Add(-patience)), meta(fmt.Sprintf("nightly-report-%08d", i), i, true)
	uid := string(m.UID)
	j := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: m,
		Spec: batchv1.JobSpec{
			TTLSecondsAfterFinished: new(int32(patience / time.Second)), Parallelism: new(int32(1)), Completions: new(int32(1)), BackoffLimit: new(int32(6)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: uid}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
				batchv1.ControllerUidLabel: uid, "controller-uid": uid, batchv1.JobNameLabel: m.Name, "job-name": m.Name}}, Spec: podSpec},
			Suspend: new(false), CompletionMode: new(batchv1.NonIndexedCompletion), PodReplacementPolicy: new(batchv1.TerminatingOrFailed),
		},
	}
	if !stays(i) {
		j.Status = batchv1.JobStatus{Succeeded: 1, StartTime: &at, CompletionTime: &at, Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastProbeTime: at, LastTransitionTime: at}}}
	}
	return j
}

// csr returns a denied request, or an approved and issued one if it stays.
func csr(i int, due time.Time) runtime.Object {
	at := metav1.NewTime(due.Add(-patience))
	r := &certificatesv1.CertificateSigningRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}, ObjectMeta: meta(fmt.Sprintf("csr-%08d", i), i, false),
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: make([]byte, 900), SignerName: "example.com/bench", Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, Username: "bench"},
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "Bench", LastUpdateTime: at, LastTransitionTime: at}}},
	}
	if stays(i) {
		now := metav1.Now()
		r.Status.Conditions[0].Type, r.Status.Conditions[0].LastUpdateTime = certificatesv1.CertificateApproved, now
		r.Status.Certificate = []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
	}
	return r
}
