package main

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ebb-agent/ebb/bench/contender"
)

const (
	// familySize is how many dependents an owner has, except the root of a tree.
	familySize = 20
	namespaces = 100
)

var born = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// maker makes objects as the API server would store them. Its seed is fixed, so that each run has
// the same objects.
type maker struct {
	random *rand.Rand
	made   int
	owner  metav1.OwnerReference // of the current family
	left   int                   // dependents that it still gets
}

func newMaker() *maker { return &maker{random: rand.New(rand.NewPCG(13, 7))} }

// uid returns a random UUID, as the API server assigns them.
func (m *maker) uid() types.UID {
	var u [16]byte
	for i := range u {
		u[i] = byte(m.random.Uint32())
	}
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	h := hex.EncodeToString(u[:])
	return types.UID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

func (m *maker) meta(name, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, UID: m.uid(), CreationTimestamp: born, Labels: map[string]string{"app": "size"}}
}

// next returns the next of many objects: ConfigMaps and Pods in turn, a third with an owner. The
// owners are ConfigMaps that have no owner themselves.
func (m *maker) next() runtime.Object {
	m.made++
	i := m.made
	namespace := fmt.Sprint("size-", i/(3*familySize)%namespaces)
	var owners []metav1.OwnerReference
	if i%3 == 0 && m.left > 0 {
		m.left--
		owners = []metav1.OwnerReference{m.owner}
	}
	if m.left == 0 || i%(3*familySize) == 0 {
		owner := configMap(m.meta(fmt.Sprint("settings-", i), namespace))
		m.owner, m.left = reference(owner), familySize
		return owner
	}
	return m.object(i, namespace, owners...)
}

// object returns a ConfigMap or a Pod, in turn.
func (m *maker) object(i int, namespace string, owners ...metav1.OwnerReference) runtime.Object {
	if i%2 == 0 {
		meta := m.meta(fmt.Sprint("settings-", i), namespace)
		meta.OwnerReferences = owners
		return configMap(meta)
	}
	meta := m.meta(fmt.Sprintf("service-%d-7d9f6c5b8-%05x", i/familySize, i*2654435761&0xfffff), namespace)
	meta.OwnerReferences = owners
	return pod(meta)
}

// tree returns a namespace with an owner and its dependents.
func (m *maker) tree(namespace string, dependents int) []runtime.Object {
	root := configMap(m.meta("root", namespace))
	list := []runtime.Object{contender.Namespace(m.meta(namespace, "")), root}
	for i := range dependents {
		list = append(list, m.object(i, namespace, reference(root)))
	}
	return list
}

func reference(o *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: new(true)}
}

func configMap(meta metav1.ObjectMeta) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta, Data: map[string]string{"key": "value"}}
}

// pod returns a Pod that waits for a node, so that a DELETE removes it at once.
func pod(meta metav1.ObjectMeta) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta,
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/service:1", ImagePullPolicy: corev1.PullIfNotPresent,
				TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: corev1.DefaultSchedulerName,
			SecurityContext: &corev1.PodSecurityContext{}, TerminationGracePeriodSeconds: new(int64(30)), EnableServiceLinks: new(true),
			Priority: new(int32(0)), PreemptionPolicy: new(corev1.PreemptLowerPriority),
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort},
	}
}
