// SPDX-License-Identifier: GPL-2.0
/*
 * Receive queues. Where header split is on, the payload of a TCP packet goes to pages of the
 * queue's pool, which are device memory if a program has bound the queue, and the header to the
 * linear part. "DMA" is a copy to the direct mapping of the page.
 */
#include <linux/dma-direct.h>
#include <linux/etherdevice.h>
#include <linux/random.h>
#include <net/netdev_lock.h>

#include "nic.h"

/* What a reset takes along: the queue's memory. */
struct nic_queue_memory {
	struct page_pool *pool;
};

bool nic_splits(const struct net_device *dev)
{
	return dev->cfg->hds_config == ETHTOOL_TCP_DATA_SPLIT_ENABLED;
}

static int nic_create_pool(struct net_device *dev, int index, struct page_pool **pool)
{
	struct page_pool_params params = {
		.pool_size = NIC_RING_ENTRIES,
		.nid = NUMA_NO_NODE,
		.dev = nic_parent,
		.dma_dir = DMA_FROM_DEVICE,
		.max_len = PAGE_SIZE,
		.netdev = dev,
		.queue_idx = index,
		.flags = PP_FLAG_DMA_MAP | PP_FLAG_DMA_SYNC_DEV,
	};

	if (nic_splits(dev))
		params.flags |= PP_FLAG_ALLOW_UNREADABLE_NETMEM;
	*pool = page_pool_create(&params);
	return PTR_ERR_OR_ZERO(*pool);
}

static void *nic_address(netmem_ref page)
{
	return phys_to_virt(dma_to_phys(nic_parent, page_pool_get_dma_addr_netmem(page)));
}

/* With `shuffle`, some pages are held back, and one of them, by chance, is used instead. */
static netmem_ref nic_take_page(struct nic_queue *q)
{
	netmem_ref page;
	unsigned int i;

	if (READ_ONCE(nic_starve))
		return 0;
	if (!READ_ONCE(nic_shuffle))
		return q->stashed ? q->stash[--q->stashed] :
				    page_pool_alloc_netmems(q->pool, GFP_ATOMIC | __GFP_NOWARN);
	while (q->stashed < NIC_STASH) {
		page = page_pool_alloc_netmems(q->pool, GFP_ATOMIC | __GFP_NOWARN);
		if (!page)
			break;
		q->stash[q->stashed++] = page;
	}
	if (!q->stashed)
		return 0;
	i = get_random_u32_below(q->stashed);
	page = q->stash[i];
	q->stash[i] = q->stash[--q->stashed];
	return page;
}

static void nic_drop_stash(struct nic_queue *q)
{
	while (q->stashed)
		page_pool_put_full_netmem(q->pool, q->stash[--q->stashed], false);
}

/* Copies `bytes` of `from` into pages of the pool, as fragments of `to`. */
static bool nic_fill_pages(struct nic_queue *q, struct sk_buff *to, const struct sk_buff *from,
			   unsigned int at, unsigned int bytes)
{
	unsigned int i = 0;

	while (bytes) {
		unsigned int piece = min_t(unsigned int, bytes, PAGE_SIZE);
		netmem_ref page = i < MAX_SKB_FRAGS ? nic_take_page(q) : 0;

		if (!page)
			return false;
		nic_copy(from, at, nic_address(page), piece);
		skb_add_rx_frag_netmem(to, i++, page, 0, piece, PAGE_SIZE);
		at += piece;
		bytes -= piece;
	}
	return true;
}

static void nic_receive_packet(struct nic_queue *q, struct sk_buff *skb)
{
	/* The linear part is no page of the pool. */
	if (skb_shinfo(skb)->nr_frags)
		skb_mark_for_recycle(skb);
	if (!skb_frags_readable(skb))
		q->counters.rx_device_packets++;
	q->counters.rx_packets++;
	dev_sw_netstats_rx_add(q->dev, skb->len);
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb->protocol = eth_type_trans(skb, q->dev);
	skb_record_rx_queue(skb, q->index);
	napi_gro_receive(&q->napi, skb);
}

static bool nic_every(unsigned int n, unsigned int seen)
{
	return n && seen % n == 0;
}

/* Whether the payload stays behind the headers, in host memory. */
static bool nic_is_linear(const struct nic_queue *q, unsigned int header, unsigned int bytes)
{
	if (!nic_splits(q->dev) || header + bytes <= q->dev->cfg->hds_thresh)
		return true;
	/* What did not fit one frame does not fit the linear part either. */
	return nic_every(READ_ONCE(nic_linear_every), q->seen) && bytes <= q->dev->max_mtu;
}

/* One packet of a TCP stream: `bytes` of payload at `at` behind `header` bytes of headers. */
static void nic_receive_data(struct nic_queue *q, struct sk_buff *from, unsigned int header,
			     unsigned int at, unsigned int bytes, bool whole)
{
	bool linear;
	struct sk_buff *skb;

	q->seen++;
	if (nic_every(READ_ONCE(nic_drop_every), q->seen)) {
		q->counters.rx_lost++;
		return;
	}
	linear = nic_is_linear(q, header, bytes);
	skb = nic_copy_header(&q->napi, from, header, at, linear ? bytes : 0);
	if (!skb) {
		q->counters.rx_no_page++;
		return;
	}
	if (linear) {
		nic_copy(from, at, skb_put(skb, bytes), bytes);
		if (nic_splits(q->dev))
			q->counters.rx_linear_packets++;
	} else if (!nic_fill_pages(q, skb, from, at, bytes)) {
		q->counters.rx_no_page++;
		skb_mark_for_recycle(skb);
		kfree_skb(skb);
		return;
	}
	if (whole && skb_is_gso(from)) {
		skb_shinfo(skb)->gso_size = skb_shinfo(from)->gso_size;
		skb_shinfo(skb)->gso_segs = skb_shinfo(from)->gso_segs;
		skb_shinfo(skb)->gso_type = skb_shinfo(from)->gso_type;
	}
	nic_receive_packet(q, skb);
}

/* Everything that is no TCP data, and lands in host memory on any NIC. */
static void nic_receive_other(struct nic_queue *q, struct sk_buff *from)
{
	struct sk_buff *skb = napi_alloc_skb(&q->napi, from->len);

	if (!skb) {
		q->counters.rx_no_page++;
		return;
	}
	nic_copy(from, 0, skb_put(skb, from->len), from->len);
	nic_receive_packet(q, skb);
}

static void nic_receive(struct nic_queue *q, struct sk_buff *from)
{
	unsigned int header = nic_header_bytes(from);
	unsigned int step = skb_is_gso(from) ? skb_shinfo(from)->gso_size : from->len;
	unsigned int at;

	if (!header || from->len == header) {
		nic_receive_other(q, from);
	} else if (!skb_is_gso(from) || (!READ_ONCE(nic_segment) && nic_splits(q->dev))) {
		nic_receive_data(q, from, header, header, from->len - header, true);
	} else {
		for (at = header; at < from->len; at += step)
			nic_receive_data(q, from, header, at, min(step, from->len - at), false);
	}
	consume_skb(from);
}

static int nic_poll(struct napi_struct *napi, int budget)
{
	struct nic_queue *q = container_of(napi, struct nic_queue, napi);
	struct sk_buff *skb;
	int done = 0;

	while (done < budget && (skb = skb_dequeue(&q->arrived))) {
		nic_receive(q, skb);
		done++;
	}
	if (done < budget && napi_complete_done(napi, done) && !skb_queue_empty(&q->arrived))
		napi_schedule(napi);
	return done;
}

void nic_queue_init(struct nic_queue *q, struct net_device *dev, int index)
{
	q->dev = dev;
	q->index = index;
	skb_queue_head_init(&q->arrived);
	netif_napi_add(dev, &q->napi, nic_poll);
}

/* From the other NIC: takes `skb` over. */
void nic_queue_deliver(struct nic_queue *q, struct sk_buff *skb)
{
	unsigned long flags;
	bool taken;

	spin_lock_irqsave(&q->arrived.lock, flags);
	taken = q->open && skb_queue_len(&q->arrived) < NIC_BACKLOG;
	if (taken)
		__skb_queue_tail(&q->arrived, skb);
	else if (q->open)
		q->counters.rx_overrun++;
	spin_unlock_irqrestore(&q->arrived.lock, flags);
	if (taken)
		napi_schedule(&q->napi);
	else
		dev_kfree_skb_any(skb);
}

static void nic_queue_set_open(struct nic_queue *q, bool open)
{
	unsigned long flags;

	spin_lock_irqsave(&q->arrived.lock, flags);
	q->open = open;
	spin_unlock_irqrestore(&q->arrived.lock, flags);
}

static void nic_queue_run(struct nic_queue *q, struct page_pool *pool)
{
	q->pool = pool;
	napi_enable_locked(&q->napi);
	netif_queue_set_napi(q->dev, q->index, NETDEV_QUEUE_TYPE_RX, &q->napi);
	nic_queue_set_open(q, true);
}

static struct page_pool *nic_queue_halt(struct nic_queue *q)
{
	struct page_pool *pool = q->pool;

	nic_queue_set_open(q, false);
	netif_queue_set_napi(q->dev, q->index, NETDEV_QUEUE_TYPE_RX, NULL);
	napi_disable_locked(&q->napi);
	skb_queue_purge(&q->arrived);
	nic_drop_stash(q);
	q->pool = NULL;
	return pool;
}

int nic_queue_open(struct nic_queue *q)
{
	struct page_pool *pool;
	int error = nic_create_pool(q->dev, q->index, &pool);

	if (!error)
		nic_queue_run(q, pool);
	return error;
}

void nic_queue_close(struct nic_queue *q)
{
	page_pool_destroy(nic_queue_halt(q));
}

static int nic_memory_alloc(struct net_device *dev, struct netdev_queue_config *config,
			    void *memory, int index)
{
	struct nic_queue_memory *m = memory;

	if (READ_ONCE(nic_reset_error))
		return -abs(READ_ONCE(nic_reset_error));
	return nic_create_pool(dev, index, &m->pool);
}

static void nic_memory_free(struct net_device *dev, void *memory)
{
	struct nic_queue_memory *m = memory;

	if (!IS_ERR_OR_NULL(m->pool))
		page_pool_destroy(m->pool);
}

static int nic_reset_start(struct net_device *dev, struct netdev_queue_config *config,
			   void *memory, int index)
{
	struct nic_queue_memory *m = memory;

	nic_queue_run(&((struct nic *)netdev_priv(dev))->queues[index], m->pool);
	m->pool = NULL;
	return 0;
}

static int nic_reset_stop(struct net_device *dev, void *memory, int index)
{
	struct nic_queue *q = &((struct nic *)netdev_priv(dev))->queues[index];

	((struct nic_queue_memory *)memory)->pool = nic_queue_halt(q);
	q->counters.rx_resets++;
	return 0;
}

const struct netdev_queue_mgmt_ops nic_queue_ops = {
	.ndo_queue_mem_size = sizeof(struct nic_queue_memory),
	.ndo_queue_mem_alloc = nic_memory_alloc,
	.ndo_queue_mem_free = nic_memory_free,
	.ndo_queue_start = nic_reset_start,
	.ndo_queue_stop = nic_reset_stop,
};
