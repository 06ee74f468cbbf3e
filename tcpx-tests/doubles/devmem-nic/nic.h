/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pairs of Ethernet NICs joined by a cable, for testing device-memory TCP without hardware.
 *
 * main.c     the NICs, their cables, module parameters
 * receive.c  receive queues: pages, header split, what goes wrong on request, queue resets
 * segment.c  cutting what the stack hands over into packets, as a NIC's TSO does
 * steer.c    which queue a packet goes to: flow rules, then the RSS table
 * ethtool.c  settings and counters
 */
#ifndef TCPX_DEVMEM_NIC_H
#define TCPX_DEVMEM_NIC_H

#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/netdev_queues.h>
#include <net/page_pool/helpers.h>

#define NIC_PAIRS 2
#define NIC_QUEUES 4
#define NIC_RING_ENTRIES 1024
#define NIC_RULES 32
#define NIC_RSS_ENTRIES 64
/* Pages that a queue holds back, to hand them out in another order. */
#define NIC_STASH 16
/* Packets that may wait in a queue; more are dropped, as by a full ring. */
#define NIC_BACKLOG 2048

struct nic_counters {
	u64 rx_packets;
	u64 rx_device_packets;	/* payload went to device memory */
	u64 rx_linear_packets;	/* payload that should have been split went to host memory */
	u64 rx_no_page;		/* dropped: the queue's pool gave no page */
	u64 rx_lost;		/* dropped because drop_every said so */
	u64 rx_overrun;		/* dropped: too many packets waited */
	u64 rx_resets;		/* how often the queue was stopped by a reset */
};

struct nic_queue {
	struct napi_struct napi;
	struct net_device *dev;
	int index;
	struct page_pool *pool;
	struct sk_buff_head arrived;
	bool open;		/* under arrived.lock */
	unsigned int seen;	/* data packets, for the every-N-th parameters */
	netmem_ref stash[NIC_STASH];
	unsigned int stashed;
	struct nic_counters counters;
};

struct nic_rule {
	bool used;
	struct ethtool_rx_flow_spec spec;
};

struct nic {
	struct net_device *dev;
	struct net_device __rcu *peer;	/* NULL: the other NIC is unplugged */
	struct nic_queue queues[NIC_QUEUES];
	spinlock_t steer_lock;	/* rules and rss */
	struct nic_rule rules[NIC_RULES];
	u32 rss[NIC_RSS_ENTRIES];
	u64 tx_device_packets;
};

/* Module parameters; all may be changed while packets flow. */
extern unsigned int nic_drop_every;
extern unsigned int nic_linear_every;
extern bool nic_shuffle;
extern bool nic_starve;
extern int nic_reset_error;
extern bool nic_segment;

extern struct device *nic_parent;
extern const struct ethtool_ops nic_ethtool_ops;
extern const struct netdev_queue_mgmt_ops nic_queue_ops;

/* receive.c */
bool nic_splits(const struct net_device *dev);
void nic_queue_init(struct nic_queue *q, struct net_device *dev, int index);
int nic_queue_open(struct nic_queue *q);
void nic_queue_close(struct nic_queue *q);
void nic_queue_deliver(struct nic_queue *q, struct sk_buff *skb);

/* segment.c */
unsigned int nic_header_bytes(const struct sk_buff *skb);
void *nic_bytes_at(const struct sk_buff *skb, unsigned int at, unsigned int *bytes, bool *device);
void nic_copy(const struct sk_buff *skb, unsigned int at, void *to, unsigned int bytes);
struct sk_buff *nic_copy_header(struct napi_struct *napi, const struct sk_buff *skb,
				unsigned int header, unsigned int at, unsigned int bytes);

/* steer.c */
void nic_steer_init(struct nic *nic);
int nic_steer(struct nic *nic, struct sk_buff *skb);
int nic_get_rules(struct net_device *dev, struct ethtool_rxnfc *request, u32 *locations);
int nic_set_rules(struct net_device *dev, struct ethtool_rxnfc *request);

#endif
