tidemill plan shop.sql > plan.txt
tidemill run shop.sql --threads 1 > run.txt
tidemill show-watermarks shop.sql > watermarks.txt
tidemill status shop.sql > status.txt
