-- What rhino of schema 2 wrote: three places, one of them on a saved map, one deleted.
BEGIN TRANSACTION;
CREATE TABLE changes (
	id INTEGER NOT NULL,
	count INTEGER NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO "changes" VALUES(1,6);
CREATE TABLE maps (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	robot TEXT NOT NULL,
	name TEXT NOT NULL,
	name_key TEXT NOT NULL,
	created_at DOUBLE NOT NULL,
	resolution DOUBLE NOT NULL,
	origin_x DOUBLE NOT NULL,
	origin_y DOUBLE NOT NULL,
	rows INTEGER NOT NULL,
	cols INTEGER NOT NULL,
	known_area DOUBLE NOT NULL,
	voxels INTEGER NOT NULL,
	size INTEGER NOT NULL,
	frame TEXT NOT NULL,
	thumbnail BLOB NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (robot, name_key),
	UNIQUE (id)
);
INSERT INTO "maps" VALUES(1,'e84fcf17-028c-4367-accc-468230e5c7e6','go2','office','office',1.79609292738021683695e+09,0.05,0.0,0.0,3,4,1.0,0,1,'e84fcf17-028c-4367-accc-468230e5c7e6',X'5035');
CREATE TABLE pois (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	robot TEXT NOT NULL,
	label TEXT NOT NULL,
	x DOUBLE NOT NULL,
	y DOUBLE NOT NULL,
	z DOUBLE NOT NULL,
	map_id TEXT,
	created_at DOUBLE NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);
INSERT INTO "pois" VALUES(1,'1afe8a97-d3b9-4382-b540-818dc69b6831','go2','kitchen 🐶',1.5,-2.5,0.1,'e84fcf17-028c-4367-accc-468230e5c7e6',1.79609292699340558057e+09);
INSERT INTO "pois" VALUES(2,'e327a95d-a7dd-449c-8984-872dc0bec409','other','far',3.0,4.0,0.0,NULL,1.79609292728374314303e+09);
INSERT INTO "pois" VALUES(4,'59360232-5583-4ffa-baed-8b3e77fedc89','go2','dock',0.25,0.5,0.0,'e84fcf17-028c-4367-accc-468230e5c7e6',1.79609292744742369651e+09);
CREATE TABLE running_maps (
	robot TEXT NOT NULL,
	epoch INTEGER NOT NULL,
	map_id TEXT NOT NULL,
	PRIMARY KEY (robot)
);
INSERT INTO "running_maps" VALUES('go2',7,'e84fcf17-028c-4367-accc-468230e5c7e6');
CREATE INDEX ix_pois_robot ON pois (robot);
COMMIT;
PRAGMA user_version=2;
