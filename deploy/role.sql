-- PostgreSQL runs it once, when its volume is empty: through a pooler these limits are those of the role.
alter role crm set lock_timeout = '2s';
alter role crm set idle_in_transaction_session_timeout = '10s';
alter role crm set max_parallel_workers_per_gather = 0;
